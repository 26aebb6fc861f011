"""Visits and ages of a history, whatever its clock says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.ranking.histories import OLDER, in_time

FUTURE = 10**6


def timed(days: list[int], places: list[int] | None = None) -> tuple[list[int], list[float]]:
    """Return the visits and ages of ratings; by default each has a place of its own."""
    found = np.arange(len(days)) if places is None else np.array(places, np.int64)
    ago, ages = in_time(np.array(days, np.int64), found)
    return ago.tolist(), ages.tolist()


@pytest.mark.parametrize(
    ("days", "ago", "ages"),
    [
        ([], [], []),
        ([5], [0], [0]),
        ([5, 5, 5], [0, 0, 0], [2, 1, 0]),
        ([1, 3, 3, 9], [2, 1, 1, 0], [0, 0, 0, 0]),
        ([1, 2, 3, 4], [2, 2, 1, 0], [0, 0, 0, 0]),
        ([7, 9, 3, 9], [1, 0, 0, 0], [0, 2, 1, 0]),
        ([4, FUTURE, 5, 6], [1, 0, 0, 0], [0, 2, 1, 0]),
        ([-1, -1, 4, 4], [1, 1, 0, 0], [0, 0, 1, 0]),
        ([4, 4, -1], [OLDER] * 3, [0, 0, 0]),
        ([-1, -1], [OLDER] * 2, [0, 0]),
    ],
    ids=[
        "none", "one", "one visit", "three visits", "older ones", "a clock that went back",
        "a future day", "unknown at first", "unknown at last", "never known",
    ],
)  # fmt: skip
def test_a_visit_is_a_day_and_an_age_counts_what_is_newer_in_it(days, ago, ages):
    assert timed(days) == (ago, ages)


def test_equal_places_have_one_age():
    assert timed([5] * 6, [0, 0, 1, 1, 1, 7]) == ([0] * 6, [2, 2, 1, 1, 1, 0])


def test_a_thousand_ratings_in_one_second_have_one_age():
    ago, ages = timed([3] + [8] * 1000, [0] + [41] * 1000)
    assert ago == [1] + [0] * 1000
    assert set(ages) == {0}


@given(st.lists(st.tuples(st.integers(-1, 6), st.integers(0, 4)), max_size=12), st.randoms())
def test_the_order_within_a_place_has_no_meaning(ratings, random):
    ratings = sorted(ratings)
    days, places = [day for day, _ in ratings], [place for _, place in ratings]
    first = timed(days, places)
    ago, ages = first
    assert all(0 <= each <= OLDER for each in ago)
    assert ago == sorted(ago, reverse=True)
    assert all(age == 0 for age, visit in zip(ages, ago, strict=True) if visit)
    order = list(range(len(ratings)))
    random.shuffle(order)
    order.sort(key=lambda n: ratings[n])
    moved = timed([days[n] for n in order], [places[n] for n in order])
    assert moved == first
