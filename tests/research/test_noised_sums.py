"""Noise once: the bound of a contribution, the cost of a release, and what the table holds."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from research.similarity.noised_sums import contribution, place_count, plan_for, release
from stream_app.campaigns.contribution_vectors import is_within
from stream_app.privacy.randomness import SeededSource, SystemSource

Listed = tuple[NDArray[np.int64], NDArray[np.float64]]


def listed(slots: list[int], values: list[float]) -> Listed:
    return np.array(slots, np.int64), np.array(values, np.float64)


LISTS = [
    listed([0, 2, 4], [5.0, 3.0, 1.0]),
    listed([2, 0], [4.0, 4.5]),
    listed([1], [2.0]),
    listed([], []),
    listed([4, 3, 2, 1, 0], [1.0, -3.0, 9.0, 3.0, 3.0]),
]
KEYS = np.arange(10, 15, dtype=np.uint64)


@given(
    st.lists(st.tuples(st.integers(0, 19), st.floats(-1e6, 1e6)), unique_by=lambda pair: pair[0]),
    st.sampled_from([1, 2, 50, 32_768]),
    st.booleans(),
)
def test_no_list_is_longer_than_the_bound(
    rated: list[tuple[int, float]], bound: int, differences: bool
) -> None:
    slots, values = [slot for slot, _ in rated], [value for _, value in rated]
    added = contribution(*listed(slots, values), 20, bound, differences=differences)
    assert is_within(added.integers, bound)
    assert len(np.unique(added.places)) == len(added.places)
    assert added.places.max(initial=0) < place_count(20, differences=differences)
    if rated and bound > 10_000:  # all of the norm is used
        assert np.square(added.integers.astype(float)).sum() > 0.99 * bound**2


def exact(lists: list[Listed]) -> tuple[NDArray[np.float64], ...]:
    """Return weighted counts (5, 5), differences (5, 5) and sums (5,), a pair at a time."""
    counts, differences, sums = np.zeros((5, 5)), np.zeros((5, 5)), np.zeros(5)
    for slots, values in lists:
        z = dict(zip(slots.tolist(), np.clip(values, 1, 5) - 3, strict=True))
        square = sum(1 + z[j] ** 2 if j == k else 1 + (z[j] - z[k]) ** 2 / 2 for j in z for k in z)
        for j in z:
            sums[j] += (z[j] + 3) / math.sqrt(square)
            for k in z:
                counts[j, k] += 1 / math.sqrt(square)
                differences[j, k] += (z[j] - z[k]) / math.sqrt(square)
    return counts, differences, sums


def test_the_table_is_that_of_the_weighted_lists() -> None:
    """At epsilon 500 the noise is a small part of a device, and what was summed can be seen."""
    plan = plan_for(500, 0.5, 5)
    noised = release(plan, LISTS, KEYS, SeededSource(1))
    counts, differences, sums = exact(LISTS)
    assert plan.deviation < 0.04
    tolerance = 6 * plan.deviation
    assert np.abs(noised.table.counts - counts).max() < tolerance
    assert np.abs(noised.table.differences - differences).max() < tolerance
    assert np.abs(noised.table.sums - sums).max() < 4 * tolerance
    assert (noised.table.differences == -noised.table.differences.T).all()
    assert (noised.table.counts == noised.table.counts.T).all()


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(2), Fraction(8), Fraction(100)])
def test_the_release_costs_what_was_asked_for(epsilon: Fraction) -> None:
    delta = Fraction(1, 10**6)
    for differences in (True, False):
        plan = plan_for(epsilon, delta, 300, differences=differences)
        assert (
            plan.certificate.delta(epsilon)
            <= delta
            < plan.certificate.delta(Fraction(99, 100) * epsilon)
        )


@pytest.mark.parametrize("differences", [True, False])
def test_the_noise_has_the_variance_of_the_plan(differences: bool) -> None:
    """Empty lists release the noise alone; 4.5 standard errors of a variance: rate 1e-5."""
    plan = plan_for(2, 1e-6, 100, differences=differences)
    noised = release(plan, [listed([], [])] * 3, np.arange(100, dtype=np.uint64), SeededSource(5))
    pairs = noised.table.counts[np.triu_indices(100, 1)]
    allowed = 4.5 * math.sqrt(2 / len(pairs))
    assert abs(pairs.var() / noised.deviation**2 - 1) < allowed
    if differences:
        sided = noised.table.differences[np.triu_indices(100, 1)]
        assert abs(sided.var() / plan.deviation**2 - 1) < allowed
    else:
        assert not noised.table.differences.any()


def test_two_releases_differ() -> None:
    plan = plan_for(2, 1e-6, 5)
    first, second = (release(plan, LISTS, KEYS, SystemSource()).table.counts for _ in range(2))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(
    ("epsilon", "delta", "items", "message"),
    [
        (0, 1e-6, 5, "epsilon 0"),
        (-1, 1e-6, 5, "epsilon -1"),
        (math.inf, 1e-6, 5, "epsilon inf"),
        (math.nan, 1e-6, 5, "epsilon nan"),
        (1, 0, 5, "delta 0"),
        (1, math.nan, 5, "delta nan"),
        (1, 1, 5, "delta 1"),
        (1, 1e-6, 1, "1 items"),
        (1, 1e-6, 10_000, "10000 items"),
    ],
)
def test_a_budget_out_of_range_is_refused(
    epsilon: float, delta: float, items: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        plan_for(epsilon, delta, items)


@pytest.mark.parametrize(
    ("slots", "values", "message"),
    [
        ([0, 0], [1.0, 2.0], "twice"),
        ([0, 5], [1.0, 2.0], "slots 0 to 5"),
        ([-1], [1.0], "slots -1"),
        ([0], [1.0, 2.0], "1 slots and 2 values"),
        ([0], [math.nan], "finite"),
    ],
)
def test_a_list_that_breaks_the_bound_is_refused(
    slots: list[int], values: list[float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        contribution(*listed(slots, values), 5, 1000, differences=True)
