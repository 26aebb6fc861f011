"""A log that is longer than the memory: a sample of whole accounts, and findings that say so."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from consumers.audit import PublicConfiguration, audit_observed, observe
from consumers.audit.findings import Verdict
from consumers.audit.observed import MOST_LENGTHS, Record, Replies, Sample, Source
from stream_app import wire
from tests.consumers.audit.worlds import CELL, EPOCH, PUBLIC, RR, World, emit, honest, keys
from tests.fixtures.streams import partition_of

BOTH = PublicConfiguration((RR, CELL), scope=PUBLIC["scope"], budget=1e6)
PARTIAL = "the findings are about every account of the log"
SILENT = "cell:5:2: every enrolled account emits in every epoch"


def sizes(messages: object) -> dict[bytes, int]:
    """Return the number of cells of each account."""
    found = dict.fromkeys(messages.devices, 0)  # type: ignore[attr-defined]
    for device, count in zip(messages.device, messages.count, strict=True):  # type: ignore[attr-defined]
        found[messages.devices[device]] += int(count)  # type: ignore[attr-defined]
    return found


def test_a_sample_has_whole_accounts_and_an_honest_log_is_not_accused() -> None:
    world, devices = honest(31, people=200)
    public = replace(BOTH, enrolled=frozenset(devices))
    whole, part = observe(world.records, public), observe(world.records, public, 150_000)
    assert part.sample.halvings >= 2
    every, some = sizes(whole.messages), sizes(part.messages)
    assert 0 < len(some) < 100
    assert some == {device: every[device] for device in some}
    assert {d for d in every if part.sample.holds(d)} == set(some)
    findings = {each.claim: each for each in audit_observed(part, public)}
    assert {each.verdict for each in findings.values()} == {Verdict.OK, Verdict.UNTESTABLE}
    assert str(part.sample) in findings[PARTIAL].measured
    assert PARTIAL not in {each.claim for each in audit_observed(whole, public)}
    assert part.oddities.records == whole.oddities.records


def test_a_fault_shows_in_a_sample_and_other_accounts_are_not_missed() -> None:
    world, devices = honest(32, people=200)
    silent = [world.device() for _ in range(200)]
    public = replace(BOTH, enrolled=frozenset(devices + silent))
    part = observe(world.records, public, 150_000)
    found = {each.claim: each for each in audit_observed(part, public)}[SILENT]
    assert found.verdict is Verdict.VIOLATED
    held = sum(map(part.sample.holds, silent))
    assert 0 < float(found.figures["never"]) <= held < 200


def test_a_canary_is_in_every_sample() -> None:
    world, devices = honest(33, people=200)
    part = observe(world.records, replace(BOTH, canaries=dict.fromkeys(devices[:3], -1)), 60_000)
    assert set(devices[:3]) <= set(part.messages.devices)
    assert len(part.messages.devices) < 100


def test_one_account_that_is_larger_than_the_memory_is_dropped_even_as_a_canary() -> None:
    world = World(34)
    device = world.device()
    for turn in range(20):
        emit(world, device, keys([]), EPOCH + turn, scope=keys(range(turn * 100, turn * 100 + 100)))
    part = observe(world.records, replace(BOTH, canaries={device: -1}), 10_000)
    assert not len(part.messages)


def sent(count: int, cells: int) -> Iterator[Record]:
    """Yield messages of `count` accounts, each of its own."""
    items, reports = np.arange(cells, dtype=np.uint64), np.zeros(cells, np.uint8)
    for number in range(count):
        event = wire.Event(number.to_bytes(16, "big"), 1, RR.id, EPOCH, items, reports)
        value = wire.encode(event)
        yield Record(
            Source.RATINGS, partition_of(event.key), number, EPOCH, event.key, value
        )  # fmt: skip


@pytest.mark.nightly
@pytest.mark.thorough
@pytest.mark.parametrize(("count", "cells"), [(4000, 1), (800, 200)])
def test_memory_stays_within_three_times_the_bound(count: int, cells: int) -> None:
    bound = 400_000
    for record in sent(10, 1):
        observe([record], BOTH)  # imports and caches
    peaks = []
    for most in (bound, 10**9):
        tracemalloc.start()
        observe(sent(count, cells), BOTH, most)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[0] < 3 * bound < peaks[1], peaks


def test_the_sample_does_not_follow_from_the_pseudonyms() -> None:
    names = [number.to_bytes(16, "big") for number in range(1000)]
    first, second = (Sample(2, key) for key in (b"a" * 16, b"b" * 16))
    one, two = ({n for n in names if s.holds(n)} for s in (first, second))
    assert 180 < len(one) < 320
    assert 180 < len(two) < 320
    assert one != two
    assert {n for n in one if first.halved().holds(n)} < one
    assert Sample().key != Sample().key


def test_replies_of_very_many_lengths_are_counted_in_bounded_memory() -> None:
    replies = Replies()
    for size in range(MOST_LENGTHS + 10):
        replies.add(size, wire.LIST_LENGTH, 0)
    assert len(replies.lengths) == MOST_LENGTHS
    assert (replies.other_lengths, replies.total) == (10, MOST_LENGTHS + 10)
