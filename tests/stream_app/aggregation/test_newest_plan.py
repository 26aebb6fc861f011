"""Where a reader of the log of rounds may begin, from the plans of the log alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.aggregation.round_topics import first_needed
from stream_app.campaigns.rounds import Rounds
from stream_app.wire.campaigns.round_log import Planned
from tests.stream_app.wire.campaigns.plans import campaign


def newest(numbers: list[int], first: int = 0, before: int = 0) -> tuple[int | None, int]:
    """Return the number of the newest campaign, and the place of its plan."""
    rounds, place = Rounds(newest=before), -1
    for offset, number in enumerate(numbers[first:], first):
        if rounds.apply(Planned(campaign(number=number))):
            place = offset
    return rounds.campaign and rounds.campaign.number, place


def begun(numbers: list[int]) -> tuple[int, int]:
    return first_needed(reversed(list(enumerate(numbers))), 0)


@pytest.mark.parametrize(
    ("numbers", "first"),
    [
        ([], 0),
        ([7], 0),
        ([1, 2, 3], 1),
        ([1, 2, 2, 3, 3, 3], 2),
        ([4, 6, 5], 0),
        ([1, 2, 2**62], 1),
        ([2**62, 1, 2], 1),
        ([1, 2**62, 2], 0),
    ],
)
def test_the_state_from_there_is_that_of_the_whole_log(numbers: list[int], first: int) -> None:
    offset, before = begun(numbers)
    assert offset == first
    assert newest(numbers, offset, before) == newest(numbers)


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["", "again", "swapped"]))))
def test_it_is_for_rising_numbers_of_which_two_may_come_at_once(
    steps: list[tuple[int, str]],
) -> None:
    numbers: list[int] = []
    for step, how in steps:
        number = max(numbers, default=0) + step
        if how == "swapped":
            numbers += [number + 1, number]
        else:
            numbers += [number] * (2 if how == "again" else 1)
    offset, before = begun(numbers)
    assert newest(numbers, offset, before) == newest(numbers)
