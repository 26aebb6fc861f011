"""Sets of k: the law against every set listed, the guarantee with its floats, and refusals."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from research.score_noise.k_subset import (
    MOST_CHOSEN,
    KSubset,
    decided,
    draw,
    symmetric_polynomials,
)
from stream_app.privacy.exact.gaussian_calibration import exponential
from stream_app.privacy.randomness import SeededSource, SystemSource
from tests.naive import subsets

CRITICAL = 90.0  # chi-square of 34 degrees of freedom is above with 0.6e-6
SCORES = np.array([0.1, 0.35, 0.4, 0.5, 0.62, 0.9, 1.0])


def mechanism(k: int = 3, epsilon: Fraction = Fraction(4), **changed: float) -> KSubset:
    given = {"sensitivity": 0.25, "low": 0.0, "high": 1.0, "rounding": 0.0} | changed
    return KSubset(k, epsilon, **given)  # type: ignore[arg-type]


class Words:
    """A source of given words."""

    unsafe = True

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> NDArray[np.uint64]:
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count
        return np.array(taken, np.uint64)


def as_drawn(subset: KSubset, scores: NDArray[np.float64]) -> dict[tuple[int, ...], Fraction]:
    order, weights, columns = subset._scaled(scores)
    found = subsets.exact_law_of_floats(weights, columns)
    return {tuple(sorted(order[list(places)].tolist())): p for places, p in found.items()}


@pytest.mark.parametrize("k", [1, 3, 7])
def test_the_law_is_that_of_all_sets_listed(k: int) -> None:
    subset = mechanism(k)
    slope = Fraction(subset.slope)
    weights = [exponential(slope * int(step))[0] for step in subset.steps(SCORES)]
    exact = subsets.law(weights, k)
    drawn = as_drawn(subset, SCORES)
    assert len(drawn) == math.comb(7, k)
    for places, probability in exact.items():
        assert float(drawn[places] / probability) == pytest.approx(1, abs=1e-12)
        assert subset.log_likelihood(places, SCORES) == pytest.approx(
            math.log(probability), abs=1e-11
        )


@pytest.mark.thorough
def test_the_draws_follow_the_law() -> None:
    """Chi-square over the 35 sets of 3 of 7, false alarm 1e-6; a law of e^(1.15 c f) would fail."""
    subset, source, draws = mechanism(), SeededSource(7), 40_000
    counted = Counter(tuple(subset.release(SCORES, source).tolist()) for _ in range(draws))
    sets = list(combinations(range(7), 3))
    expected = draws * np.exp(subset.log_likelihood(sets, SCORES))
    seen = np.array([counted[places] for places in sets])
    assert expected.sum() == pytest.approx(draws)
    assert float(((seen - expected) ** 2 / expected).sum()) < CRITICAL
    # Total variation at the floor of so many draws: sum of E|seen - expected| / 2, and not below.
    floor = float(np.sqrt(expected / (2 * math.pi)).sum() / draws)
    assert 0.5 * floor < float(np.abs(seen - expected).sum()) / (2 * draws) < 1.5 * floor
    sharper = 1.15 * subset.log_likelihood(sets, SCORES)
    other = draws * np.exp(sharper) / np.exp(sharper).sum()
    assert float(((seen - other) ** 2 / other).sum()) > CRITICAL


@pytest.mark.parametrize(
    ("epsilon", "reached"), [(Fraction(1, 2), 0.5), (Fraction(4), 0.6), (Fraction(60), 0.99)]
)
def test_no_set_tells_two_neighbours_apart_by_more_than_epsilon(
    epsilon: Fraction, reached: float
) -> None:
    """With the floats as they are: every score moves by the whole sensitivity either way."""
    base = np.array([0.3, 0.4, 0.5, 0.7])
    subset = mechanism(2, epsilon)
    bound, before, worst = exponential(epsilon)[0], as_drawn(subset, base), Fraction(0)
    for signs in product((-1, 1), repeat=4):
        after = as_drawn(subset, base + 0.25 * np.array(signs))
        worst = max(worst, *(after[each] / before[each] for each in before))
        worst = max(worst, *(before[each] / after[each] for each in before))
    assert worst <= bound
    assert math.log(worst) > reached * float(epsilon)  # the bound is not idle


def test_one_direction_costs_half() -> None:
    base = np.array([0.3, 0.4, 0.5, 0.7])
    subset = KSubset(2, Fraction(4), 0.25, 0.0, 1.0, rounding=0.0, monotone=True)
    before, worst = as_drawn(subset, base), Fraction(0)
    for raised in product((0, 1), repeat=4):
        after = as_drawn(subset, base + 0.25 * np.array(raised))
        worst = max(worst, *(max(after[s] / before[s], before[s] / after[s]) for s in before))
    assert worst <= exponential(Fraction(4))[0]
    assert subset.slope == pytest.approx(2 * mechanism(2).slope)


@pytest.mark.parametrize(("count", "k"), [(1, 1), (5, 5), (40, 4), (300, 20)])
def test_a_draw_takes_what_the_item_by_item_draw_takes(count: int, k: int) -> None:
    scores = np.random.default_rng(count).random(count)
    subset = mechanism(k, Fraction(30))
    order, weights, columns = subset._scaled(scores)
    table = symmetric_polynomials(weights, columns)
    np.testing.assert_array_equal(table, subsets.table(weights, columns))
    for seed in range(10):
        words = SeededSource(seed).words(count)
        found = draw(weights, columns, table, Words(*words.tolist()))
        assert found.tolist() == subsets.draw(weights, columns, words)
        released = subset.release(scores, Words(*words.tolist()))
        assert released.tolist() == sorted(order[found].tolist())


def test_a_word_that_does_not_decide_is_followed_by_another() -> None:
    taking, leaving = np.array([1.0]), np.array([2.0])
    limit = Fraction(float(taking[0] / 3)) * 2**64
    assert limit.denominator == 1  # a third as a float has no bits beyond a word
    small = np.array([2.0**-70])
    for words, taken in (
        ((0, 0), True),
        ((0, 2**58 - 1), True),
        ((0, 2**58), False),
        ((1,), False),
    ):
        source = Words(*words[1:])
        assert decided(small, 1 - small, np.array(words[:1], np.uint64), source) == [taken]
        assert not source.left
    whole = int(limit)
    for word, taken in ((whole - 1, True), (whole, False)):
        assert decided(taking, leaving, np.array([word], np.uint64), Words()) == [taken]
        # Of the likelier choice the other one is drawn.
        assert decided(leaving, taking, np.array([word], np.uint64), Words()) == [not taken]


def test_equal_scores_give_every_set_the_same_chance() -> None:
    subset = mechanism(3)
    assert float(subset.log_likelihood([0, 4, 8], np.full(20, 0.5))) == pytest.approx(
        -math.log(math.comb(20, 3))
    )


def test_what_is_far_below_the_best_stays_possible() -> None:
    """Weights down to e^-600 beside 1, and numbers of sets near the end of a float."""
    subset = mechanism(10, Fraction(10_000))
    scores = np.zeros(30)
    scores[0] = 1.0
    law = subset.log_likelihood([list(range(1, 11)), list(range(10))], scores)
    assert law[1] - law[0] == pytest.approx(600 + 0.5 * math.log(math.factorial(10) / 30**10))
    many = mechanism(MOST_CHOSEN, Fraction(10_000))
    scores = np.linspace(0, 1, 20_000)
    _, weights, columns = many._scaled(scores)
    table = symmetric_polynomials(weights, columns)
    rows = np.arange(MOST_CHOSEN + 1)[:, None]
    reached = table[np.arange(len(scores) + 1) >= rows]
    assert reached.min() > 1e-300
    assert reached.max() < 1e300
    assert len(set(many.release(scores, SystemSource()).tolist())) == MOST_CHOSEN


def test_what_cannot_be_drawn_is_refused() -> None:
    for epsilon in (Fraction(0), Fraction(-1), Fraction(10_001), Fraction(1, 2**27)):
        with pytest.raises(ValueError, match="epsilon"):
            mechanism(epsilon=epsilon)
    for bad in (math.inf, math.nan):
        with pytest.raises(ValueError, match="epsilon"):
            KSubset(3, bad, 0.25, 0.0, 1.0)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="sensitivity"):
            mechanism(sensitivity=bad)
        with pytest.raises(ValueError, match="rounding"):
            mechanism(rounding=bad)
    with pytest.raises(ValueError, match="sensitivity 0"):
        mechanism(sensitivity=0.0)
    with pytest.raises(ValueError, match="too small"):
        mechanism(sensitivity=1e-12)
    with pytest.raises(ValueError, match="finite range"):
        mechanism(low=1.0)
    for k in (0, MOST_CHOSEN + 1):
        with pytest.raises(ValueError, match="items"):
            mechanism(k)
    with pytest.raises(ValueError, match="3 of 2 items"):
        mechanism().release([0.1, 0.2], SystemSource())
    with pytest.raises(ValueError, match="not a number"):
        mechanism().release([0.1, math.nan, 0.3], SystemSource())
    with pytest.raises(ValueError, match="too many sets"):
        mechanism(MOST_CHOSEN).release(np.zeros(1 << 20), SystemSource())
