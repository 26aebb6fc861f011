"""The scan of the cut log finds whether a checkpoint was superseded, wherever its cut is."""

from __future__ import annotations

import pytest
from msgspec import structs

from stream_app.checkpoints.cut_log_scan import CutLogScan
from stream_app.kafka import clients
from stream_app.log.cut_chain import LEAST_MARGIN, MOST_AHEAD, MOST_CUTS
from stream_app.wire import Cut, Entry, Topics, Truncate, encode_message
from stream_app.wire.state_records import Manifest, StateOrigin
from tests.conftest import Kafka
from tests.fixtures.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.kafka

ORIGIN = StateOrigin(0, (0,))
NEWEST = 220 + LEAST_MARGIN
LOG: list[Entry] = [
    *(Cut(number, (number,), 0) for number in range(1, 201)),
    Truncate(150, NEWEST),
    *(Cut(NEWEST + number, (150 + number,), 0) for number in range(1, 101)),
]


def manifest(cut: int, cut_offset: int, end: int) -> Manifest:
    return Manifest(1, 1, "d", "t", cut, (end,), cut_offset, ORIGIN, "m", "l", (), ())


@pytest.fixture
def scan(kafka: Kafka, topics: str) -> CutLogScan:
    names, producer = Topics(topics), clients.producer(kafka.connection)
    for entry in LOG:
        producer.produce(names.cuts, encode_message(entry))
    assert producer.flush(PATIENCE_SECONDS) == 0
    return CutLogScan(kafka.connection, names.cuts)


def test_checkpoints_of_superseded_cuts_are_recognised(scan: CutLogScan) -> None:
    reached = NEWEST + 100
    kept = [
        manifest(1, 1, 1),
        manifest(150, 150, 150),
        manifest(reached, 301, 250),
        manifest(reached + 5, 306, 250),  # the cut log may have lost its end
        manifest(reached + MOST_AHEAD, 302, 250),
    ]
    gone = [
        manifest(151, 151, 151),
        manifest(200, 200, 200),
        manifest(210, 999, 210),  # its cut was lost with the end of the cut log
        manifest(MOST_CUTS + 1, 5, 5),
        manifest(MOST_CUTS - 1, 301, 250),
        manifest(reached + MOST_AHEAD + 1, 302, 250),
    ]
    for each in (*kept, *gone, *reversed(kept)):
        assert scan.superseded(each) == (each in gone), (each.cut, each.cut_offset)


def test_a_late_cut_of_a_frozen_clock_does_not_hide_a_truncation(kafka: Kafka, topics: str) -> None:
    """It has a superseded number, and is the first of the newest entries."""
    names, producer = Topics(topics), clients.producer(kafka.connection)
    clock = (Cut(NEWEST + number, (150 + number,), 0) for number in range(1, 100))
    early = [*LOG[:201], *(next(clock) for _ in range(10)), LOG[160]]
    for entry in (*early, *(next(clock) for _ in range(63))):
        producer.produce(names.cuts, encode_message(entry))
    assert producer.flush(PATIENCE_SECONDS) == 0
    scan = CutLogScan(kafka.connection, names.cuts)
    assert scan.superseded(manifest(155, 155, 155))
    assert not scan.superseded(manifest(150, 150, 150))


def test_a_manifest_is_looked_up_once(scan: CutLogScan, monkeypatch: pytest.MonkeyPatch) -> None:
    each = manifest(151, 151, 151)
    assert scan.superseded(each)
    monkeypatch.setattr(CutLogScan, "_is_superseded", lambda *_: False)
    assert scan.superseded(each)
    assert not scan.superseded(manifest(151, 151, 152)), "another manifest"


def test_a_cut_is_found_where_a_manifest_names_it(scan: CutLogScan) -> None:
    genuine = manifest(150, 150, 150)
    assert scan.names(genuine)
    for field, value in (("cut", 10**9), ("cut_offset", 151), ("cut_offset", 999), ("cut", 149)):
        assert not scan.names(structs.replace(genuine, **{field: value}))
    assert not scan.names(structs.replace(genuine, end_offsets=(151,)))
    assert not scan.names(manifest(0, 0, 0))
