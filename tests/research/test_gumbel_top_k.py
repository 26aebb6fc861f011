"""The k best by integers: its exact law, its guarantee over neighbours, and what it refuses."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, permutations, product

import numpy as np
import pytest

from research.gumbel_top_k import GumbelTopK, below, level_weights
from stream_app.privacy.exact.gaussian_calibration import exponential
from stream_app.privacy.randomness import SeededSource, SystemSource


def mechanism(k: int = 2, epsilon: Fraction = Fraction(1), **changed: float) -> GumbelTopK:
    given = {"sensitivity": 0.25, "low": 0.0, "high": 1.0, "rounding": 0.0} | changed
    return GumbelTopK(k, epsilon, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(20)])
def test_no_level_is_more_than_its_share_above_the_next(epsilon: Fraction) -> None:
    chosen = mechanism(epsilon=epsilon)
    weights = level_weights(chosen.slope, chosen.levels)
    upper = exponential(chosen.slope)[1]
    assert len(weights) == chosen.levels
    for low, high in pairwise(weights):
        assert low <= high <= low * upper
    # As close to e^slope as integers of 64 bits and more can be.
    assert weights[-1] >= weights[0] * exponential(chosen.slope * (chosen.levels - 1))[0] * (
        1 - Fraction(chosen.levels, 2**60)
    )


@pytest.mark.parametrize("k", [1, 2, 3])
def test_no_list_tells_two_neighbours_apart_by_more_than_epsilon(k: int) -> None:
    """All scores move by the whole sensitivity, each in its own direction."""
    base = np.array([0.1, 0.4, 0.5, 0.9])
    for epsilon in (Fraction(1, 2), Fraction(8)):
        chosen = mechanism(k, epsilon)
        worst = 0.0
        for signs in product((-1, 1), repeat=4):
            moved = base + 0.25 * np.array(signs)
            for places in permutations(range(4), k):
                worst = max(
                    worst,
                    abs(chosen.log_likelihood(places, base) - chosen.log_likelihood(places, moved)),
                )
        assert worst <= float(epsilon) + 1e-12
        assert worst > 0.4 * float(epsilon) / k  # the bound is not idle


def test_one_direction_costs_half() -> None:
    base = np.array([0.1, 0.4, 0.5, 0.9])
    chosen = GumbelTopK(2, Fraction(2), 0.25, 0.0, 1.0, rounding=0.0, monotone=True)
    worst = max(
        abs(chosen.log_likelihood(places, base) - chosen.log_likelihood(places, moved))
        for raised in product((0, 1), repeat=4)
        for moved in [np.minimum(base + 0.25 * np.array(raised), 1)]
        for places in permutations(range(4), 2)
    )
    assert 0.5 < worst <= 2 + 1e-12


def test_scores_that_differ_by_the_sensitivity_are_at_most_so_many_levels_apart() -> None:
    generator = np.random.default_rng(4)
    chosen = GumbelTopK(3, Fraction(1), 0.0123, -1.0, 1.0, rounding=1e-5)
    scores = generator.uniform(-1, 1, 100_000)
    for sign in (-1, 1):
        moved = scores + sign * (0.0123 + 2e-5)
        apart = np.abs(chosen.on_levels(scores) - chosen.on_levels(moved))
        assert apart.max() <= chosen.steps
        assert apart.max() >= chosen.steps - 1


def test_the_probabilities_of_all_lists_add_up_to_one() -> None:
    scores = [0.0, 0.3, 0.31, 0.8, 1.0]
    chosen = mechanism(3, Fraction(12))
    lists = list(permutations(range(5), 3))
    total = math.fsum(math.exp(chosen.log_likelihood(each, scores)) for each in lists)
    assert total == pytest.approx(1, abs=1e-12)


def test_lists_come_with_their_probabilities() -> None:
    """Chi-square over the 12 ordered pairs of 4 items, 20,000 draws; false alarm rate 1e-6."""
    scores = [0.0, 0.4, 0.5, 1.0]
    chosen = mechanism(2, Fraction(6))
    source = SeededSource(11)
    lists = list(permutations(range(4), 2))
    counts = dict.fromkeys(lists, 0)
    for _ in range(20_000):
        first, second = chosen.release(scores, source).tolist()
        counts[first, second] += 1
    expected = {each: 20_000 * math.exp(chosen.log_likelihood(each, scores)) for each in lists}
    statistic = sum((counts[each] - expected[each]) ** 2 / expected[each] for each in lists)
    assert statistic < 48.8  # the 1 - 1e-6 quantile of chi-square with 11 degrees of freedom


def test_large_epsilon_gives_the_best_in_order() -> None:
    scores = np.array([0.2, 0.9, 0.1, 0.7, 0.5])
    found = mechanism(3, Fraction(3000)).release(scores, SystemSource())
    assert found.tolist() == [1, 3, 4]


def test_equal_scores_are_equally_likely_and_all_can_be_chosen() -> None:
    chosen = mechanism(5, Fraction(5))
    found = chosen.release(np.full(5, 0.5), SystemSource())
    assert sorted(found.tolist()) == [0, 1, 2, 3, 4]
    for places in permutations(range(5)):
        assert chosen.log_likelihood(places, np.full(5, 0.5)) == pytest.approx(-math.log(120))


def test_uniform_integers_stay_below_their_limit() -> None:
    source = SeededSource(3)
    for limit in (1, 2, 3, 2**64, 2**64 + 1, 3**200):
        drawn = [below(limit, source) for _ in range(200)]
        assert 0 <= min(drawn) <= max(drawn) < limit
    assert {below(3, source) for _ in range(200)} == {0, 1, 2}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"epsilon": Fraction(0)}, "epsilon 0"),
        ({"epsilon": math.inf}, "epsilon inf"),
        ({"epsilon": math.nan}, "epsilon nan"),
        ({"k": 0}, "0 items"),
        ({"sensitivity": 0.0}, "sensitivity 0.0"),
        ({"sensitivity": math.nan}, "sensitivity nan"),
        ({"low": 1.0}, "finite range"),
        ({"rounding": -1.0}, "rounding -1.0"),
        ({"sensitivity": 1e-9}, "levels, above 8,192"),
        ({"epsilon": Fraction(10_000), "sensitivity": 0.001}, "protects nothing"),
    ],
)
def test_what_cannot_be_drawn_is_refused(changed: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mechanism(**changed)  # type: ignore[arg-type]


def test_scores_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="2 items of 1"):
        mechanism(2).release([0.5], SystemSource())
    with pytest.raises(ValueError, match="not a number"):
        mechanism(1).release([0.5, math.nan], SystemSource())
