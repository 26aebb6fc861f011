"""Devices whose every event is stale give their rows back, and no event is ever applied twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stream_app.kernels.stream.deduplication import HAND, LEFT, OLDEST
from stream_app.state.high_water_marks import HighWaterMarks
from stream_app.state.replica import Replica
from stream_app.wire import MAX_SEQ_GAP, REASON_CODE, Event, Reason, decode_many
from tests.fixtures.replicas import ALL, SMALL
from tests.fixtures.rounds import digests
from tests.fixtures.streams import Published, events, log, publish, run_of
from tests.naive import statistics as naive

STALE, AHEAD, FORGOTTEN = (
    REASON_CODE[reason] for reason in (Reason.STALE, Reason.AHEAD, Reason.FORGOTTEN)
)
Days = tuple[int, int] | None
Sent = tuple[int, int, int]  # device, seq, day
DAY = st.integers(0, 12) | st.sampled_from([65533, 65534, 65535, 2**32 - 1])
WINDOW = st.none() | st.tuples(DAY, DAY).map(sorted).map(tuple)
SENT = st.tuples(st.integers(0, 9), st.integers(1, 4), DAY)
ROUNDS = st.lists(st.tuples(WINDOW, st.lists(SENT, max_size=12)), max_size=12)


def taken(marks: HighWaterMarks, sent: list[Sent], days: Days) -> list[int]:
    """Return the outcomes of a batch; -1 and -2 for what was rejected as stale and as ahead, 9 for
    a duplicate of other contents, here another day modulo 3."""
    devices = np.array([(device, 7) for device, _, _ in sent], np.uint64).reshape(-1, 2)
    seqs, epochs = (np.array([each[n] for each in sent], np.int64) for n in (1, 2))
    reasons = marks.admit(epochs, np.zeros(len(sent), np.uint8), days)
    contents = (epochs % 3 + 1).astype(np.uint32)
    outcomes, _, reused = marks.advance(devices, seqs, epochs, reasons == 0, contents)
    refused = {STALE: -1, AHEAD: -2}
    pairs = zip(outcomes.tolist(), reasons.tolist(), strict=True)
    found = [refused[reason] if reason else outcome for outcome, reason in pairs]
    assert not any(reused) or {found[n] for n in np.flatnonzero(reused)} == {1}
    return [9 if again else each for each, again in zip(found, reused.tolist(), strict=True)]


def one_by_one(slow: naive.Marks, sent: list[Sent], days: Days) -> list[int]:
    """Return the same of the obvious version."""
    slow.accept(days)
    outcomes = []
    for device, seq, day in sent:
        if day < slow.oldest:
            outcomes.append(-1)
        elif days is not None and day > slow.newest:
            outcomes.append(-2)
        else:
            outcome = slow.advance((device, 7), seq, True, day, day % 3)[0]
            outcomes.append(9 if slow.reused else outcome)
    return outcomes


def same(marks: HighWaterMarks, slow: naive.Marks) -> None:
    arrays = marks.arrays()
    rows = [None if free else tuple(d) for d, free in zip(
        arrays["devices"].tolist(), (arrays["days"] == 0).tolist(), strict=True)]  # fmt: skip
    assert rows == slow.rows
    assert (len(marks), marks.devices) == (len(slow.rows), len(slow.runs))
    assert arrays["numbers"][OLDEST] == slow.oldest
    for row, device in enumerate(slow.rows):
        if device is not None:
            assert arrays["marks"][row].tolist() == slow.row(device)
    asked = np.array([(device, 7) for device in range(12)], np.uint64)
    known = {device: row for row, device in enumerate(slow.rows)}
    assert marks.rows(asked).tolist() == [known.get((device, 7), -1) for device in range(12)]


@pytest.mark.parametrize("signed", [False, True])
@settings(deadline=None, max_examples=200)
@given(
    rounds=ROUNDS,
    cut=st.integers(0, 12),
    steps=st.integers(1, 4),
    seeds=st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
def test_marks_in_batches_do_what_dictionaries_do_one_by_one(
    signed: bool, rounds: list[tuple[Days, list[Sent]]], cut: int, steps: int,
    seeds: tuple[int, int],
) -> None:  # fmt: skip
    """The second table gets each round in two batches, and is loaded into another after each."""
    whole, split = (HighWaterMarks(seed, signed=signed, steps=steps) for seed in seeds)
    slow = naive.Marks(MAX_SEQ_GAP, signed=signed)
    for days, sent in rounds:
        expected = one_by_one(slow, sent, days)
        assert taken(whole, sent, days) == expected
        assert [o for p in (sent[:cut], sent[cut:]) for o in taken(split, p, days)] == expected
        evicted = slow.evict(steps)
        for marks in (whole, split):
            marks.accept(days)
            assert marks.evict().tolist() == evicted
        loaded = HighWaterMarks(signed=signed, steps=steps)
        loaded.load(split.arrays())
        split = loaded
        for marks in (whole, split):
            same(marks, slow)
        assert {n: a.tobytes() for n, a in whole.arrays().items()} == {
            n: a.tobytes() for n, a in split.arrays().items()
        }


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[Days, list[Sent]]]:
    """Return rounds of devices that number their events in order, of days that do not go back, and
    any of whose events is sent again at any time."""
    made: dict[int, list[Sent]] = {}
    rounds = []
    for _ in range(draw(st.integers(1, 12))):
        oldest, sent = draw(st.integers(0, 10)), []
        for _ in range(draw(st.integers(0, 8))):
            device = draw(st.integers(0, 4))
            own = made.setdefault(device, [])
            if own and draw(st.booleans()):
                sent.append(draw(st.sampled_from(own)))
            else:
                day = draw(st.integers(own[-1][2] if own else 0, 10))
                own.append((device, len(own) + 1, day))
                sent.append(own[-1])
        rounds.append(((oldest, 10), sent))
    return rounds


@pytest.mark.parametrize("signed", [False, True])
@settings(deadline=None, max_examples=300)
@given(rounds=logs(), steps=st.integers(1, 4))
@example(rounds=[((0, 9), [(0, 1, 3)]), ((4, 9), []), ((4, 9), [(0, 1, 3)])], steps=1)
@example(rounds=[((4, 9), []), ((4, 9), [(0, 1, 5)]), ((1, 9), [(0, 1, 3)])], steps=1)
def test_an_event_is_never_applied_twice(
    signed: bool, rounds: list[tuple[Days, list[Sent]]], steps: int
) -> None:
    marks, applied = HighWaterMarks(signed=signed, steps=steps), list[Sent]()
    for days, sent in rounds:
        outcomes = taken(marks, sent, days)
        applied += [each for each, outcome in zip(sent, outcomes, strict=True) if outcome == 0]
        marks.evict()
    assert len(applied) == len(set(applied))


def test_rows_are_bounded_by_the_devices_of_the_window() -> None:
    """A hundred new devices a day for a year take the rows of a window of ten days."""
    marks = HighWaterMarks(steps=128)
    for day in range(365):
        sent = [(100 * day + n, 1, day) for n in range(100)]
        assert set(taken(marks, sent, (max(0, day - 10), day + 1))) == {0}
        for _ in range(10):  # rounds of the same day
            marks.accept((max(0, day - 10), day + 1))
            marks.evict()
    assert marks.devices == 1100
    assert len(marks) <= 1200
    assert marks.memory_bytes <= 116 * 2048


def test_the_days_of_a_round_reject_what_is_outside_and_the_oldest_never_moves_back() -> None:
    marks = HighWaterMarks()
    assert taken(marks, [(1, 1, 0), (1, 2, 2**32 - 1)], None) == [0, 0], "no window"
    assert taken(marks, [(2, 1, 4), (2, 1, 5), (2, 2, 9), (2, 3, 10)], (5, 9)) == [-1, 0, 0, -2]
    assert taken(marks, [(3, 1, 4), (3, 1, 9)], (2, 7)) == [-1, 0]
    assert taken(marks, [(4, 1, 4), (4, 1, 99)], None) == [-1, 0]


def test_a_cut_without_days_costs_nothing_and_changes_nothing() -> None:
    marks = HighWaterMarks()
    taken(marks, [(1, 1, 0)], None)
    before = {name: array.tobytes() for name, array in marks.arrays().items()}
    marks.accept(None)
    assert not len(marks.evict())
    assert {name: array.tobytes() for name, array in marks.arrays().items()} == before
    assert not marks.arrays()["numbers"].any()


def test_a_hand_or_a_rest_beyond_the_rows_is_not_loaded() -> None:
    """The kernel goes wherever the hand is."""
    marks = HighWaterMarks()
    taken(marks, [(1, 1, 5), (2, 1, 5)], (0, 9))
    good = {name: array.copy() for name, array in marks.arrays().items()}
    HighWaterMarks().load(good)
    for place, least in ((HAND, 2), (LEFT, 3)):
        for number in (least, 2**63 - 1):
            bad = {**good, "numbers": good["numbers"].copy()}
            bad["numbers"][place] = number
            with pytest.raises(ValueError, match="there are 2 rows"):
                HighWaterMarks().load(bad)


# --- the replica --------------------------------------------------------------------------------


def dated(rng: np.random.Generator, day: int, count: int = 60, **given: int) -> list[Published]:
    """Return the records of new devices that report on one day."""
    made = events(rng, count, families=tuple(m.id for m in ALL.mechanisms), **given)
    return [publish(replace(event, epoch=day)) for event in made]


def play(
    replica: Replica, rounds: list[tuple[Days, list[Published]]], rng: np.random.Generator
) -> None:
    """Apply rounds in runs of any length."""
    for number, (days, records) in enumerate(rounds, 1):
        ends = [0] * 4 if number == 1 else list(replica.end_offsets)
        for p, part in enumerate(log(records)):
            at = 0
            while at < len(part):
                stop = min(len(part), at + int(rng.integers(1, 40)))
                run = run_of(part, at, stop, p)
                offsets = range(ends[p] + at, ends[p] + stop)
                batch = decode_many(replace(run, offsets=offsets, days=days), replica.spec.intake)
                replica.apply(batch)
                at = stop
            ends[p] += len(part)
        replica.end_round(replica.cut + 1, ends, days)


def test_replicas_agree_however_the_rounds_are_split(rng: np.random.Generator) -> None:
    first, second, third = (dated(rng, day) for day in (100, 120, 140))
    rounds: list[tuple[Days, list[Published]]] = [
        ((90, 110), first), ((90, 130), second[:20] + first[:30]), ((110, 130), second[20:]),
        ((110, 130), first[:20]), (None, second[:30]), ((130, 150), third[:30]),
        ((130, 150), third[20:]), ((130, 150), []),
    ]  # fmt: skip
    left, right = Replica(ALL), Replica(ALL)
    play(left, rounds, np.random.default_rng(1))
    play(right, rounds, np.random.default_rng(2))
    assert digests(left) == digests(right)
    counts, rejected = left.ledger.counts(), left.ledger.rejected()
    assert rejected == {"stale": 20}, "in the round of the cut that makes them stale, not before"
    assert counts["duplicate"] == 30 + 30 + 10
    assert counts["applied"] == 180
    devices = [len({record.key for record in records}) for records in (first, second, third)]
    assert left.marks.devices == devices[2]
    assert len(left.marks) == devices[0] + devices[1], "those of the third have taken such rows"


def test_a_replica_that_was_loaded_between_two_evictions_goes_on_as_before(
    rng: np.random.Generator,
) -> None:
    first, second = dated(rng, 100), dated(rng, 120)
    head: list[tuple[Days, list[Published]]] = [((90, 110), first), ((110, 130), second[:30])]
    tail: list[tuple[Days, list[Published]]] = [((110, 130), second[20:] + first[:9])]
    whole, loaded = Replica(ALL), Replica(ALL)
    play(whole, head, rng)
    loaded.load(
        whole.model_arrays(), whole.ledger.arrays(), whole.cut, whole.end_offsets, whole.origin
    )
    for replica in (whole, loaded):
        play(replica, tail, rng)
    assert digests(whole) == digests(loaded)


def test_an_evicted_device_has_no_list_and_its_row_and_blocks_serve_the_next(
    rng: np.random.Generator,
) -> None:
    replica = Replica(SMALL)
    lists = replica.pairs.rated
    assert lists is not None
    old = dated(rng, 100, mechanism="rr:5:2")  # type: ignore[arg-type]
    play(replica, [((90, 110), old)], rng)
    rows, blocks = len(replica.marks), lists.lists.length("blocks")
    senders = [bytes.fromhex((record.key or b"").decode()) for record in old]
    device = next(each for each in senders if len(replica.history(each)[0]))
    play(replica, [((110, 130), [])], rng)
    assert replica.marks.devices == 0
    assert not len(replica.history(device)[0])
    assert not lists.lists.arrays()["blocks"].any(), "nothing of a list remains"
    before = lists.devices
    new = dated(rng, 120, mechanism="rr:5:2", devices=rows)  # type: ignore[arg-type]
    play(replica, [((110, 130), new)], rng)
    assert len(replica.marks) == rows
    assert lists.devices == before + replica.marks.devices, "each list is one of another device"
    assert lists.lists.length("blocks") <= blocks + rows
    assert not len(replica.history(device)[0])


def test_a_list_that_was_released_is_that_of_a_table_without_it(rng: np.random.Generator) -> None:
    """Devices that come after an eviction have the lists that they would have had alone."""
    old, new = dated(rng, 100), dated(rng, 120)
    evicting, never = Replica(ALL), Replica(ALL)
    play(evicting, [((90, 110), old), ((110, 130), []), ((110, 130), new)], rng)
    play(never, [(None, old), (None, []), (None, new)], rng)
    devices = {bytes.fromhex((record.key or b"").decode()) for record in new}
    assert len(devices) > 20
    for device in devices:
        for reported in (False, True):
            own, other = (r.history(device, reported=reported) for r in (evicting, never))
            assert own[0].tolist() == other[0].tolist()
            assert own[1].tolist() == other[1].tolist()


def test_what_a_device_sends_while_it_is_erased_is_rejected_as_that(
    rng: np.random.Generator,
) -> None:
    replica = Replica(SMALL)
    event: Event = replace(events(rng, 1)[0], epoch=100)
    play(replica, [((90, 110), [publish(event)])], rng)
    replica.forget(event.device)
    play(replica, [((110, 130), []), ((110, 130), [publish(event)])], rng)
    assert replica.marks.devices == 0
    assert replica.ledger.rejected() == {"forgotten": 1}


def test_a_state_with_fewer_lists_than_devices_evicts_them_all(rng: np.random.Generator) -> None:
    """Only a forged state has fewer: a release must not write beyond them."""
    replica, loaded = Replica(SMALL), Replica(SMALL)
    play(replica, [((90, 110), dated(rng, 100, 300, devices=300))], rng)  # type: ignore[arg-type]
    model = {**replica.model_arrays()}
    for name in ("ends", "visits", "likes"):
        model[f"rated_lists.{name}"] = model[f"rated_lists.{name}"][:1]
    loaded.load(model, replica.ledger.arrays(), replica.cut, replica.end_offsets, replica.origin)
    lists = loaded.pairs.rated
    assert lists is not None
    assert len(loaded.marks) > len(lists.lists.room("ends"))
    play(loaded, [((110, 130), [])], rng)
    assert loaded.marks.devices == 0
    assert lists.lists.length("ends") == len(loaded.marks)
