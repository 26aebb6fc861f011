"""What a forged sequence number costs its victim where devices are not signed: one event at most.

Everyone who may write ratings may write one in the name of any device whose pseudonym they know.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.state.high_water_marks import HighWaterMarks
from stream_app.state.replica import Replica
from stream_app.wire import MAX_SEQ, MAX_SEQ_GAP, decode_many
from tests.fixtures.replicas import SMALL
from tests.fixtures.streams import events, publish, run_of
from tests.naive import statistics as naive

APPLIED, DUPLICATE, HELD_BACK = 0, 1, 2
VICTIM = np.array([[7, 9]], np.uint64)


def outcome(marks: HighWaterMarks, seq: int) -> int:
    outcomes, *_ = marks.advance(
        VICTIM, np.array([seq], np.int64), np.zeros(1, np.int64), np.ones(1, np.bool_)
    )
    return int(outcomes[0])


@pytest.mark.parametrize("forged", [12, 10 + MAX_SEQ_GAP, 2000, 2**20, MAX_SEQ])
def test_a_forged_record_costs_at_most_one_of_the_next_thousand_genuine_events(
    forged: int, rng: np.random.Generator
) -> None:
    made = replace(events(rng, 1)[0], seq=1)
    seqs = [*range(1, 11), forged, *range(11, 1011)]
    records = [publish(replace(made, seq=seq)) for seq in seqs]
    replica = Replica(SMALL)
    run = run_of(records, 0, len(records), records[0].partition)
    outcomes = replica.apply(decode_many(run, SMALL.intake)).records
    genuine = np.delete(outcomes, 10)
    assert int((genuine == APPLIED).sum()) >= len(genuine) - 1


NUMBERS = st.one_of(
    st.integers(1, 40), st.integers(50, 200), st.integers(2**40, 2**40 + 3), st.just(MAX_SEQ)
)


@settings(deadline=None, max_examples=300)
@given(
    forged=st.lists(st.tuples(st.integers(0, 40), NUMBERS), max_size=40),
    first=st.sampled_from([1, 30, 2**40 - 5]),
)
def test_forged_records_cost_at_most_one_genuine_event_each(
    forged: list[tuple[int, int]], first: int
) -> None:
    """The victim sends 41 events; any number of forged ones lies between any two of them."""
    marks, lost = HighWaterMarks(), 0
    for n in range(41):
        lost += outcome(marks, first + n) != APPLIED
        for place, seq in forged:
            if place == n:
                outcome(marks, seq)
    assert lost <= len(forged)


@settings(deadline=None, max_examples=300)
@given(seqs=st.lists(st.one_of(st.integers(1, 9), st.integers(100, 103)), max_size=40))
def test_two_runs_of_numbers_are_kept_and_become_one_where_they_meet(seqs: list[int]) -> None:
    marks, slow = HighWaterMarks(), naive.Marks(MAX_SEQ_GAP)
    device = (7, 9)
    assert [outcome(marks, seq) for seq in seqs] == [slow.advance(device, s, True)[0] for s in seqs]
    assert marks.arrays()["marks"].tolist() == ([slow.row(device)] if seqs else [])


@settings(deadline=None, max_examples=200)
@given(hole=st.integers(0, 1000), before=st.integers(1, 50), again=st.integers(0, 200))
def test_after_one_hole_every_record_that_is_sent_again_is_a_duplicate(
    hole: int, before: int, again: int
) -> None:
    """Numbers are lost where the log lost its tail; the device goes on, and may resend the rest."""
    marks = HighWaterMarks()
    seqs = [*range(1, before + 1), *range(before + hole + 1, before + hole + 150)]
    outcomes = [outcome(marks, seq) for seq in seqs]
    assert outcomes.count(HELD_BACK) == int(hole > MAX_SEQ_GAP)
    assert outcomes.count(DUPLICATE) == 0
    for _ in range(2):
        assert {outcome(marks, seq) for seq in seqs[-again:]} == {DUPLICATE}


def test_every_second_number_is_enough() -> None:
    """A server that refuses every second record of a device takes the others."""
    marks = HighWaterMarks()
    assert {outcome(marks, seq) for seq in range(1, 1000, 2)} == {APPLIED}


def test_an_unknown_device_may_begin_at_any_number() -> None:
    """Its earlier records may be gone from the log from which the state was made."""
    marks = HighWaterMarks()
    assert [outcome(marks, seq) for seq in (5000, 5001, 5001, 1, 2)] == [0, 0, 1, 0, 0]


@pytest.mark.parametrize("beyond", [0, 1])
def test_a_gap_of_the_limit_is_believed_and_a_larger_one_held_back(beyond: int) -> None:
    marks = HighWaterMarks()
    seqs = 1, 2 + MAX_SEQ_GAP + beyond, 3 + MAX_SEQ_GAP + beyond
    assert [outcome(marks, seq) for seq in seqs] == [APPLIED, HELD_BACK if beyond else APPLIED, 0]


def test_a_signed_number_is_believed_and_nothing_below_it_is_applied_again() -> None:
    marks = HighWaterMarks(signed=True)
    seqs = 1, 2, 2**40, 3, 2**40, 2**40 + 1, MAX_SEQ, 1
    assert [outcome(marks, seq) for seq in seqs] == [0, 0, 0, 1, 1, 0, 0, 1]
