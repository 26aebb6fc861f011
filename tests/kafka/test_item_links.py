"""The public item side on a real Kafka: owners of the clock write it, a device reads it whole, and
what a worker publishes is what its devices rated together."""

from __future__ import annotations

import time
from collections.abc import Iterable

import numpy as np
import pytest

from producers.ranking import LocalRecommender
from stream_app.agents.public_tables import Versions, published
from stream_app.errors import UserError
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter
from stream_app.kafka.topic_follower import records
from stream_app.ranking.compact_side import decode_side, encode_side
from stream_app.wire import Event, Topics
from stream_app.wire.public_tables import (
    NEWEST_RECORDS,
    TableReader,
    TableRecord,
    encode_table_record,
)
from tests.conftest import Kafka
from tests.fixtures.item_sides import item_side
from tests.fixtures.streams import Published, publish
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.kafka.conftest import SOON, Send, Start, ends_of

pytestmark = pytest.mark.kafka


@pytest.fixture
def session_seconds() -> float:
    return SOON


def write(kafka: Kafka, topics: str, found: Iterable[TableRecord]) -> None:
    writer = AcknowledgedWriter.connect(kafka.connection, Topics(topics).item_links)
    for record in found:
        writer.send_patiently(key=record.key, value=encode_table_record(record))
    writer.wait()


def owner(kafka: Kafka, topics: str) -> Versions:
    return Versions(lambda: published(kafka.connection, Topics(topics).item_links))


def test_owners_alternate_the_slots_and_a_reader_finds_the_newest_version_whole(
    kafka: Kafka, topics: str, rng: np.random.Generator
) -> None:
    sides = [item_side(rng, 900, 60, 40, 9, version=cut) for cut in range(1, 7)]
    first = owner(kafka, topics)
    for side in sides[:2]:
        write(kafka, topics, first.due(encode_side(side), side.version))
    assert first.due(encode_side(sides[1]), sides[1].version) == []
    second = owner(kafka, topics)
    assert second.due(encode_side(sides[1]), sides[1].version) == []
    found = second.due(encode_side(sides[2]), sides[2].version)
    assert {record.slot for record in found} == {0}
    assert len(found) > 4
    write(kafka, topics, found[:3])  # its writer ends here
    whole = published(kafka.connection, Topics(topics).item_links)
    assert whole is not None
    assert (whole.cut, whole.slot) == (2, 1)
    third = owner(kafka, topics)
    for side in sides[3:]:
        write(kafka, topics, third.due(encode_side(side), side.version))
    reader = TableReader()
    for message in records(kafka.connection, Topics(topics).item_links, newest=NEWEST_RECORDS):
        reader.learn(message.key(), message.value())
    newest = reader.newest()
    assert newest is not None
    assert newest.table == encode_side(sides[5])
    assert decode_side(newest.table).version == newest.cut == 6


def test_another_item_side_at_the_same_cut_is_written(
    kafka: Kafka, topics: str, rng: np.random.Generator
) -> None:
    # The state was rebuilt without a device, and nothing has arrived since.
    before, after = (item_side(rng, 50, 10, 10, 2, version=7) for _ in range(2))
    versions = owner(kafka, topics)
    write(kafka, topics, versions.due(encode_side(before), before.version))
    write(kafka, topics, versions.due(encode_side(after), after.version))
    whole = published(kafka.connection, Topics(topics).item_links)
    assert whole is not None
    assert whole.table == encode_side(after)


def test_the_newest_records_are_read_without_the_earlier_ones(kafka: Kafka, topics: str) -> None:
    topic = Topics(topics).item_links
    writer = AcknowledgedWriter.connect(kafka.connection, topic)
    for number in range(20):
        writer.send(key=b"key", value=str(number).encode())
    writer.wait()
    found = [message.value() for message in records(kafka.connection, topic, newest=3)]
    assert found == [b"17", b"18", b"19"]
    for newest in (20, 21, None):
        found = [message.value() for message in records(kafka.connection, topic, newest=newest)]
        assert found[-1] == b"19"
        assert len(found) in (1, 20)  # compacted or not


def test_an_empty_topic_holds_no_version(kafka: Kafka, topics: str) -> None:
    assert published(kafka.connection, Topics(topics).item_links) is None


GROUPS = (range(1, 9), range(11, 19))


def group_events(devices: range) -> list[Published]:
    """Return the events of devices each of which rates six items of one group, most of them 5."""
    rng = np.random.default_rng(devices.start)
    records = []
    for number in devices:
        items = rng.choice(GROUPS[number % 2], 6, replace=False).astype(np.uint64)
        levels = rng.choice([3, 4], 6).astype(np.uint8)
        name = bytes([number % 256, number // 256]) * 8
        records.append(publish(Event(name, 1, "none:5:inf", 0, items, levels)))
    return records


def newest(kafka: Kafka, topics: str, after: int) -> LocalRecommender:
    """Return the recommender of the first version whose cut is above `after`."""
    deadline, seen = time.monotonic() + PATIENCE_SECONDS, ""
    while time.monotonic() < deadline:
        try:
            found = LocalRecommender.from_kafka(kafka.connection, topics)
        except UserError as reason:
            seen = str(reason)
            continue
        if found.table.side.version > after:
            return found
        seen = f"version {found.table.side.version}"
    raise AssertionError(f"no version after {after} within {PATIENCE_SECONDS:.0f} s: {seen}")


def test_a_worker_publishes_what_goes_together_and_its_successor_goes_on(
    start: Start, send: Send, kafka: Kafka, topics: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MURMUREC_TUNING_ITEM_LINKS_SECONDS", "0.2")
    records = group_events(range(60))
    send(records)
    worker = start()
    worker.wait_for(ends_of(records))
    found = newest(kafka, topics, 0)
    for items in GROUPS:
        listed = found.recommend([(items[0], 5.0), (items[1], 5.0)], 4, because=True)
        assert {int(row.item) in items for row in listed.items} == {True}
        assert all(row.because for row in listed.items)
    assert len(found.table.side) == 16
    worker.process.kill()
    more = group_events(range(60, 200))
    send(more)
    start().wait_for(ends_of(records + more))
    later = newest(kafka, topics, found.table.side.version)
    assert len(later.table.side) == 16
