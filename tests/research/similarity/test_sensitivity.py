"""What one person can change: searches for the worst case, against the proved bounds.

A search draws small worlds in which the change is large (few raters, ratings at the ends of the
scale) and climbs from them, one cell after the other. The largest change found must stay below the
bound, and must come near it where it is attained: a bound that is far from what is found is loose,
one that is exceeded is wrong.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from research.similarity import cosine, slope_one
from tests.research.similarity.ratings import tabled

ROUNDING = 1e-5  # of sums in float32
World = np.ndarray  # (users, items): stars, NaN where there is no rating; row 0 is the asker


def predicted(world: World, damping: float, least: int) -> np.ndarray:
    """Return f (n,) of Slope One, damped and clamped, for the user of row 0."""
    slots = np.flatnonzero(~np.isnan(world[0]))
    return slope_one.predict(
        slope_one.deviations(tabled(world), damping), slots, world[0, slots], least
    )


def predicted_towards_means(world: World, damping: float, least: int) -> np.ndarray:
    """Return the same with deviations damped towards the means of the items."""
    slots = np.flatnonzero(~np.isnan(world[0]))
    deviations = slope_one.deviations(tabled(world), damping, towards_means=True)
    return slope_one.predict(deviations, slots, world[0, slots], least)


def scored(world: World, damping: float, least: int) -> np.ndarray:
    """Return f (n,) of damped cosine for the user of row 0."""
    slots = np.flatnonzero(~np.isnan(world[0]))
    return cosine.scores(cosine.similarities(tabled(world), damping), slots, least)


def without_other(world: World) -> World:
    """Return the world without the last user."""
    return world[:-1]


def without_own(world: World) -> World:
    """Return the world without the asker's rating of item 0."""
    fewer = world.copy()
    fewer[0, 0] = np.nan
    return fewer


def largest(
    change: Callable[[World], float], random: np.random.Generator, users: int, items: int
) -> float:
    """Return the largest change found from 12 starts, each climbed over 150 changed cells."""
    best = 0.0
    for _ in range(12):
        world = random.choice([1.0, 5.0, np.nan], (users, items), p=_shares(random))
        found = change(world)
        for _ in range(150):
            other = world.copy()
            cell = random.integers(users), random.integers(items)
            other[cell] = random.choice([1.0, 5.0, np.nan])
            if (reached := change(other)) >= found:
                world, found = other, reached
        best = max(best, found)
    return best


def _shares(random: np.random.Generator) -> np.ndarray:
    return random.dirichlet([1, 1, 1])


def moved(
    answer: Callable[[World, float, int], np.ndarray],
    smaller: Callable[[World], World],
    damping: float,
    least: int,
    *,
    unseen: bool,
) -> Callable[[World], float]:
    """Return the change of the answers between a world and its smaller neighbour: over all items,
    or over those that the asker has not rated in the larger one."""

    def change(world: World) -> float:
        difference = np.abs(answer(world, damping, least) - answer(smaller(world), damping, least))
        counted = np.isnan(world[0]) if unseen else np.ones(world.shape[1], np.bool_)
        return float(difference[counted].max(initial=0))

    return change


@pytest.mark.parametrize("damping", [0.5, 5.0, 20.0])
@pytest.mark.parametrize("answer", [predicted, scored])
def test_the_profile_of_another_user_moves_no_score_beyond_its_bound(answer, damping):
    bound = (slope_one if answer is predicted else cosine).other_profile_bound(damping)
    change = moved(answer, without_other, damping, 1, unseen=False)
    found = largest(change, np.random.default_rng(int(damping * 10)), users=3, items=4)
    assert 0.7 * bound < found <= bound + ROUNDING


@pytest.mark.parametrize("damping", [0.5, 2.0, 20.0])
def test_the_profile_of_another_user_moves_no_score_towards_the_means_beyond_its_bound(damping):
    bound = slope_one.other_profile_bound(damping, towards_means=True)
    change = moved(predicted_towards_means, without_other, damping, 1, unseen=False)
    found = largest(change, np.random.default_rng(int(damping * 10)), users=6, items=3)
    assert 0.4 * bound < found <= bound + ROUNDING


@pytest.mark.parametrize("damping", [0.5, 2.0, 20.0, 100.0])
def test_the_bound_towards_the_means_holds_for_large_counts(damping):
    """Two items of n raters each, one always 5 and one always 1, and then a first co-rater who
    rates them the other way round."""
    n, least, most = np.arange(1000.0), -2.0, 2.0
    before = (most - least) * n / (n + damping)
    means = (most - least) * (n - 1) / (n + 1 + damping)
    after = (least - most + damping * means) / (1 + damping)
    bound = slope_one.other_profile_bound(damping, towards_means=True)
    assert 0.8 * bound < np.abs(after - before).max() <= bound


@pytest.mark.parametrize("least", [1, 3, 6])
@pytest.mark.parametrize("answer", [predicted, predicted_towards_means])
def test_an_own_rating_moves_slope_one_of_an_unseen_item_by_its_bound_at_most(answer, least):
    bound = slope_one.own_rating_bound(least)
    change = moved(answer, without_own, 0.2, least, unseen=True)
    found = largest(change, np.random.default_rng(least), users=6, items=least + 3)
    assert 0.5 * bound < found <= bound + ROUNDING


@pytest.mark.parametrize("least", [1, 3, 6])
def test_an_own_report_moves_cosine_of_an_unseen_item_by_its_bound_at_most(least):
    bound = cosine.own_report_bound(least)
    change = moved(scored, without_own, 0.2, least, unseen=True)
    found = largest(change, np.random.default_rng(least), users=6, items=least + 3)
    assert 0.5 * bound < found <= bound + ROUNDING


@pytest.mark.thorough
@pytest.mark.parametrize(("damping", "least"), [(0.5, 2), (4.0, 2), (2.0, 4), (2.0, 1)])
def test_an_own_rating_moves_no_score_of_any_item_beyond_its_bound(damping, least):
    random = np.random.default_rng(int(10 * damping) + least)
    for answer, bound in (
        (predicted, slope_one.own_rating_bound_of_any_item(damping, least)),
        (
            predicted_towards_means,
            slope_one.own_rating_bound_of_any_item(damping, least, towards_means=True),
        ),
        (scored, cosine.own_report_bound_of_any_item(damping, least)),
    ):
        change = moved(answer, without_own, damping, least, unseen=False)
        found = largest(change, random, users=5, items=least + 2)
        assert 0.2 * bound < found <= bound + ROUNDING


def test_another_value_of_an_own_rating_moves_slope_one_by_a_range_over_the_least_profile():
    change = _another_value(3)
    found = largest(change, np.random.default_rng(9), users=5, items=5)
    assert slope_one.own_rating_bound(3) < found <= slope_one.RANGE / 3 + ROUNDING


def _another_value(least: int) -> Callable[[World], float]:
    def change(world: World) -> float:
        low, high = world.copy(), world.copy()
        low[0, 0], high[0, 0] = 1.0, 5.0
        difference = np.abs(predicted(low, 5.0, least) - predicted(high, 5.0, least))
        return float(difference[np.isnan(low[0])].max(initial=0))

    return change


@pytest.mark.parametrize("damping", [0.0, 1.0, 5.0, 50.0])
def test_the_bounds_of_a_pair_hold_for_all_small_counts(damping):
    """Every pair of up to 30 co-raters and 60 raters, each way another user can change it."""
    both = np.arange(31.0)
    total = slope_one.RANGE * both / np.maximum(both + damping, 1e-9)
    steps = (slope_one.RANGE + total) / (both + 1 + damping)
    assert steps.max() <= slope_one.other_profile_bound(damping) + 1e-12
    c, n, m = np.meshgrid(both, np.arange(61.0), np.arange(61.0), indexing="ij")
    fits = (c <= n) & (c <= m)
    c, n, m = c[fits], n[fits], m[fits]

    def s(c: np.ndarray, n: np.ndarray, m: np.ndarray) -> np.ndarray:
        return c / np.sqrt(np.maximum((n + damping) * (m + damping), 1e-300))

    before = s(c, n, m)
    found = max(np.abs(after - before).max() for after in (s(c + 1, n + 1, m + 1), s(c, n + 1, m)))
    bound = cosine.other_profile_bound(damping)
    assert 0.9 * bound < found <= bound + 1e-12


def test_without_damping_and_clamping_one_co_rater_moves_a_score_by_the_whole_range():
    """The counter-example to Park and Acharya 2011, Theorem 3.1: a threshold of 10 co-raters."""
    world = np.full((12, 2), np.nan)
    world[0, 1] = 5.0
    world[1:, 0], world[1:, 1] = 1.0, 5.0
    slots, ratings = np.array([1]), np.array([5.0])
    for least, expected in ((10, 4.0), (20, 0.0)):
        larger, smaller = (
            slope_one.predict(slope_one.deviations(tabled(each), None, least), slots, ratings)
            for each in (world, without_other(world))
        )
        assert abs(larger - smaller)[0] == pytest.approx(expected)


def test_without_damping_a_first_rater_moves_a_cosine_by_seven_tenths():
    """The counter-example to Park and Acharya 2011, Theorem 3.2."""
    world = np.array([[np.nan, 5.0], [np.nan, 5.0], [5.0, np.nan]])
    larger = np.array([[np.nan, 5.0], [5.0, 5.0], [np.nan, np.nan]])
    smaller = larger.copy()
    smaller[1, 0] = np.nan
    found = [cosine.similarities(tabled(each))[0, 1] for each in (larger, smaller)]
    assert found[0] - found[1] == pytest.approx(0.5**0.5)
    assert cosine.similarities(tabled(world))[0, 1] == 0


@pytest.mark.parametrize("damping", [-0.1, np.nan, np.inf])
def test_a_bound_without_a_damping_is_refused(damping):
    for bound in (slope_one.other_profile_bound, cosine.other_profile_bound):
        with pytest.raises(ValueError, match="damping"):
            bound(damping)


@pytest.mark.parametrize("least", [0, -3])
def test_a_bound_without_a_least_profile_is_refused(least):
    for bound in (slope_one.own_rating_bound, cosine.own_report_bound):
        with pytest.raises(ValueError, match=f"least profile {least}"):
            bound(least)
