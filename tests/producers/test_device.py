"""The edge of the device: raw levels go in; an event comes out and says whether it is a test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from producers import device
from producers.scale import Scale
from stream_app import wire
from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource, SystemSource

WHO = bytes(16)
RR, OPEN = registry.parse("rr:5:2"), registry.parse("none:5:inf")


def make(levels: list[int], items: Any, **changed: Any) -> wire.Event:
    arguments: dict[str, Any] = {
        "mechanism": OPEN, "source": SystemSource(), "device": WHO, "seq": 1, "epoch": 20_000,
    } | changed  # fmt: skip
    return device.event(np.array(levels, np.uint8), items, **arguments)


def test_an_event_holds_the_reports_beside_the_keys_of_the_items() -> None:
    event = make([4, 0, 2], [17, "tt0111161", 3], seq=9)
    assert event.items.tolist() == [17, wire.key("tt0111161"), 3]
    assert event.reports.tolist() == [4, 0, 2]
    assert (event.device, event.seq, event.mechanism, event.epoch) == (WHO, 9, "none:5:inf", 20_000)
    assert not event.test


def test_only_the_mechanism_decides_what_is_reported() -> None:
    source = SeededSource(11)
    levels = np.arange(5, dtype=np.uint8)
    event = make([0, 1, 2, 3, 4], [5, 6, 7, 8, 9], mechanism=RR, source=source, allow_tests=True)
    np.testing.assert_array_equal(event.reports, RR.release(levels, SeededSource(11)))
    assert event.test


def test_a_source_that_can_be_replayed_is_refused_before_it_is_used() -> None:
    source = SeededSource(1)
    with pytest.raises(ValueError, match="SystemSource"):
        make([1], [1], mechanism=RR, source=source)
    np.testing.assert_array_equal(source.words(3), SeededSource(1).words(3))


@pytest.mark.parametrize(
    ("levels", "items"),
    [([], []), ([1], []), ([1, 2], [1]), ([1], [1, 2]), ([1, 2], [7, 7]), ([1, 2], ["a", "a"]),
     ([1], [-1]), ([1], [2**63]), ([1], [2**64]), ([1], [True]), ([1], [1.0]), ([1], [""]),
     ([1], ["x" * 129]), ([1], ["\ud800"]), ([1], [None]), ([5], [1]),
     ([0] * 4097, list(range(4097)))],
    ids=lambda value: str(value)[:14],
)  # fmt: skip
def test_what_is_no_event_is_refused_before_any_randomness(levels: list[int], items: Any) -> None:
    source = SeededSource(1)
    with pytest.raises(ValueError, match=r"item|level"):
        make(levels, items, mechanism=RR, source=source, allow_tests=True)
    np.testing.assert_array_equal(source.words(3), SeededSource(1).words(3))


def test_an_event_survives_the_wire() -> None:
    event = make(list(Scale().classify([1, 3, 5])[0]), [3, 2, 1])
    where = int(wire.partitions_of(np.frombuffer(event.key, np.uint8).reshape(1, 32), 4)[0])
    for value in (wire.encode(event), wire.encode_json(event)):
        back = wire.decode(event.key, value, where, wire.Intake({"none:5:inf": 5}))
        assert back.reports.tolist() == [0, 2, 4]
