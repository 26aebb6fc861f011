"""The edge of the device: raw levels go in, a request comes out; masks never see a rating."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.device import requests as device
from producers.device.item_means import (
    REFRESH_SECONDS,
    UNKNOWN_MEAN,
    ItemTable,
    RefreshedItemTable,
)
from producers.journal import Journal, Request
from producers.scale import Scale
from stream_app import wire
from stream_app.errors import UserError
from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource
from stream_app.privacy.ratings.partition_choice import PartitionSelector
from tests.producers.conftest import TOPIC
from tests.producers.journals import Enrolling, at

WHO = bytes(16)
RR, OPEN, PARTITION = (registry.parse(id) for id in ("rr:5:2", "none:5:inf", "partition:5:2"))
INTAKE = wire.Intake(
    {"none:5:inf": 5, "rr:5:2": 5, "partition:5:2": 5}, masked={"partition:5:2": 5}
)
TABLE = ItemTable(np.array([3, 5, 9], np.uint64), np.array([1.4, 4.5, 3.0]))


def make(levels: list[int], items: Any, **changed: Any) -> Request:
    line = device.ReportSettings(
        TOPIC,
        changed.pop("mechanism", OPEN),
        changed.pop("table", ItemTable()),
    )
    given: dict[str, Any] = {"device": WHO, "epoch": 20_000} | changed
    return device.request(np.array(levels, np.uint8), items, line, **given)


def released(journal: Journal, request: Request, intake: wire.Intake = INTAKE) -> list[wire.Event]:
    events = []
    for message in journal.release(request):
        where = int(wire.partitions_of(np.frombuffer(message.key, np.uint8).reshape(1, 32), 4)[0])
        events.append(wire.decode(message.key, message.value, where, intake))
    return events


def test_an_event_holds_the_reports_beside_the_keys_of_the_items(journal: Journal) -> None:
    (event,) = released(journal, make([4, 0, 2], [17, "tt0111161", 3]))
    # In the order of the keys, whatever was rated first.
    assert event.items.tolist() == [3, 17, wire.key("tt0111161")]
    assert event.reports.tolist() == [2, 4, 0]
    assert (event.device, event.seq, event.mechanism, event.epoch) == (WHO, 1, "none:5:inf", 20_000)
    assert not event.test


def test_many_ratings_become_as_few_messages_as_hold_them(journal: Journal) -> None:
    events = released(journal, make([1] * 5000, list(range(5000))))
    assert [(event.seq, len(event.items)) for event in events] == [(1, 4096), (2, 904)]
    events = released(journal, make([3] * 7, list(range(6000, 6007)), ratings_per_message=3))
    assert [(event.seq, event.items.tolist()) for event in events] == [
        (3, [6000, 6001, 6002]), (4, [6003, 6004, 6005]), (5, [6006]),
    ]  # fmt: skip
    assert all(event.reports.tolist() == [3] * len(event.items) for event in events)


def test_only_the_mechanism_decides_what_is_reported(tmp_path: Any) -> None:
    levels = np.arange(5, dtype=np.uint8)
    with at(tmp_path / "j", source=SeededSource(11), allow_tests=True) as journal:
        asked = make([0, 1, 2, 3, 4], [5, 6, 7, 8, 9], mechanism=RR)
        (event,) = released(journal, asked, wire.Intake({"rr:5:2": 5}, accept_tests=True))
    np.testing.assert_array_equal(event.reports, RR.release(levels, SeededSource(11)))
    assert event.test


def test_a_seeded_journal_marks_every_event_whoever_asks_for_it(tmp_path: Any) -> None:
    with at(tmp_path / "j", source=SeededSource(11), allow_tests=True) as journal:
        with pytest.raises(wire.WireError) as caught:
            released(journal, make([0, 1], [5, 6], mechanism=RR))
        assert caught.value.reason is wire.Reason.TEST_EVENT
        for message in journal.pending():  # the bytes themselves say it
            assert msgspec.msgpack.decode(message.value)["test"] is True


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [({"count": 2}, "3 inputs, 2 reports, 3 reported keys"),
     ({"count": 1}, "3 inputs, 1 reports"),
     ({"reported_keys": np.array([1, 2], np.uint64)}, "2 reported keys"),
     ({"raw_inputs": np.zeros(4, np.uint8)}, "4 inputs, 3 reports"),
     ({"masks": np.ones(2, np.uint16)}, "2 masks")],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)  # fmt: skip
def test_a_request_pays_for_all_that_it_draws_or_there_is_none(
    changed: dict[str, Any], sentence: str
) -> None:
    asked = make([0, 1, 2], [1, 2, 3], mechanism=RR)
    fields = {name: getattr(asked, name) for name in Request.__slots__}
    Request(**fields)
    with pytest.raises(ValueError, match=sentence):
        Request(**(fields | changed))
    assert "paid" not in fields


@pytest.mark.parametrize(
    ("levels", "items"),
    [([], []), ([1], []), ([1, 2], [1]), ([1], [1, 2]), ([1, 2], [7, 7]), ([1, 2], ["a", "a"]),
     ([1], [-1]), ([1], [2**63]), ([1], [2**64]), ([1], [True]), ([1], [1.0]), ([1], [""]),
     ([1], ["x" * 129]), ([1], ["\ud800"]), ([1], [None])],
    ids=lambda value: str(value)[:14],
)  # fmt: skip
def test_what_is_no_event_is_refused_before_any_request(levels: list[int], items: Any) -> None:
    with pytest.raises(ValueError, match=r"item"):
        make(levels, items, mechanism=RR)


def test_a_level_off_the_scale_is_refused_with_the_journal_as_it_was(journal: Enrolling) -> None:
    journal.meet([WHO])
    before = journal.path.read_bytes()
    with pytest.raises(ValueError, match=r"row 1: .*5"):
        journal.release(make([4, 5], [1, 2], mechanism=RR))
    assert journal.path.read_bytes() == before
    assert journal.spent(WHO) == {}


def test_an_event_survives_both_encodings(journal: Journal) -> None:
    levels = Scale().classify([1, 3, 5])[0].tolist()
    for first, encode in ((0, wire.encode), (10, wire.encode_json)):
        line = device.ReportSettings(TOPIC, OPEN, encode=encode)
        asked = device.request(
            np.array(levels, np.uint8), [first, first + 1, first + 2], line, device=WHO, epoch=1
        )
        (event,) = released(journal, asked)
        assert event.reports.tolist() == [0, 2, 4]


# --- the partition of the levels ------------------------------------------------------------------


def test_masks_are_chosen_by_the_public_mean_of_each_item(journal: Journal) -> None:
    keys = np.array([9, 3, 77, 5], np.uint64)
    masks = device.masks_of(PARTITION, keys, TABLE)
    expected = PartitionSelector(5, PARTITION.epsilon).masks(
        np.array([3.0, 1.4, (1.4 + 4.5 + 3.0) / 3, 4.5])
    )
    np.testing.assert_array_equal(masks, expected)
    assert len(set(expected.tolist())) > 1
    (event,) = released(journal, make([0, 1, 2, 3], keys, mechanism=PARTITION, table=TABLE))
    np.testing.assert_array_equal(event.masks, expected[np.argsort(keys)])
    assert device.masks_of(RR, keys, TABLE) is None
    assert ItemTable().means(keys).tolist() == [UNKNOWN_MEAN] * 4


def test_a_device_reads_the_table_again_after_a_while_and_keeps_it_without_a_broker() -> None:
    now, keys = [0.0], np.array([3], np.uint64)
    answers: list[ItemTable | None] = [ItemTable(), TABLE, None, ItemTable(keys, np.array([2.0]))]
    asked = []

    def read() -> ItemTable:
        asked.append(now[0])
        answer = answers[len(asked) - 1]
        if answer is None:
            raise UserError("the broker does not answer")
        return answer

    table = RefreshedItemTable(read, clock=lambda: now[0])
    found = []
    for now[0] in (0.0, REFRESH_SECONDS - 0.1, REFRESH_SECONDS, 20.0, 29.9, 30.0):
        found.append(table.means(keys)[0])
    assert found == [UNKNOWN_MEAN, UNKNOWN_MEAN, 1.4, 1.4, 1.4, 2.0]
    assert asked == [0.0, 10.0, 20.0, 30.0]
    assert device.masks_of(OPEN, keys, TABLE) is None


def test_a_device_that_starts_without_a_broker_reads_the_table_when_it_uses_it() -> None:
    now, keys, away = [0.0], np.array([3], np.uint64), [True]

    def read() -> ItemTable:
        if away[0]:
            raise UserError("the broker does not answer")
        return TABLE

    with pytest.raises(UserError):
        RefreshedItemTable(read)
    table = RefreshedItemTable(read, clock=lambda: now[0], patient=True)
    assert table.means(keys)[0] == UNKNOWN_MEAN
    away[0], now[0] = False, REFRESH_SECONDS
    assert table.means(keys)[0] == 1.4


@given(st.lists(st.integers(0, 4), min_size=4, max_size=4), st.binary(min_size=16, max_size=16))
def test_masks_are_the_same_for_any_raw_levels_and_any_user(levels: list[int], who: bytes) -> None:
    keys = np.array([9, 3, 77, 5], np.uint64)
    request = make(levels, keys, mechanism=PARTITION, table=TABLE, device=who)
    np.testing.assert_array_equal(request.masks, make([0] * 4, keys, mechanism=PARTITION,
                                                      table=TABLE).masks)  # fmt: skip


def test_nothing_raw_can_reach_the_choice_of_a_mask() -> None:
    """By structure: neither the choice nor what calls it has an argument for a rating."""
    assert list(inspect.signature(device.masks_of).parameters) == ["mechanism", "keys", "table"]
    assert list(inspect.signature(PartitionSelector.masks).parameters) == ["self", "means"]
    assert list(inspect.signature(ItemTable.means).parameters) == ["self", "items"]
    fields = [name for name in PartitionSelector.__dataclass_fields__ if not name.startswith("_")]
    assert fields == ["levels", "epsilon", "table"]
