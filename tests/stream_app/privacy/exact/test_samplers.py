"""The exact samplers against the laws they are exact for, and the tables against the samplers.

Chi-square with the quantile of Laurent and Massart (2000): for k degrees of freedom

    P(X >= k + 2 sqrt(k x) + 2 x) <= e^-x

which holds in the limit of many draws; cells of fewer than 50 expected draws are joined. With n
draws a law that is q instead of p has a statistic of about n sum (q - p)^2 / p, so at n = 10000 a
departure of sum (q - p)^2 / p = 0.015 is seen nearly always.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from stream_app.privacy.randomness import SeededSource, SystemSource
from stream_app.privacy.ratings.modified_laplace import ModifiedLaplace
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from stream_app.privacy.ratings.randomized_response_missing import RandomizedResponseWithMissing
from tests.naive.exact_samplers import (
    Words,
    bern_exp,
    bit_flip,
    discrete_gaussian,
    discrete_laplace,
    response,
)

ALPHA = 1e-6
DRAWS = 10_000


@pytest.fixture
def words() -> Words:
    return Words(SystemSource())


def strange(counts: np.ndarray, law: np.ndarray, alpha: float) -> bool:
    """Return whether counts depart from a law over the same cells, and one for the rest."""
    n = counts.sum()
    rare = law * n < 50
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = n * np.append(law[~rare], max(1 - law[~rare].sum(), 1e-9))
    if expected[-1] < 50:  # join the rest with the smallest of the others
        least = expected[:-1].argmin()
        expected[least] += expected[-1]
        counts[least] += counts[-1]
        expected, counts = expected[:-1], counts[:-1]
    k, x = len(counts) - 1, -math.log(alpha)
    return bool(((counts - expected) ** 2 / expected).sum() >= k + 2 * math.sqrt(k * x) + 2 * x)


def drawn(draw: Callable[[], int], low: int, high: int, draws: int = DRAWS) -> np.ndarray:
    """Return how often each of low .. high came, and fail for none of the others."""
    found = np.array([draw() for _ in range(draws)])
    inside = found[(found >= low) & (found <= high)]
    return np.bincount(inside - low, minlength=high - low + 1)


@pytest.mark.statistical
@pytest.mark.parametrize("g", ["0", "1/10", "1/2", "1", "7/3", "4"])
def test_bern_exp_is_one_with_probability_e_to_minus_g(words: Words, g: str) -> None:
    """False alarm 1e-6; a probability that is off by 0.1 is seen by more than six deviations."""
    p = math.exp(-Fraction(g))
    counts = drawn(lambda: bern_exp(Fraction(g), words), 0, 1)
    if p == 1:
        assert counts[1] == DRAWS
    else:
        assert not strange(counts, np.array([1 - p, p]), ALPHA)


@pytest.mark.statistical
@pytest.mark.parametrize("g", ["0", "2/5", "1", "3"])
def test_a_bit_flips_with_one_over_one_plus_e_to_g(words: Words, g: str) -> None:
    """False alarm 1e-6; power: 0.1 is seen."""
    p = 1 / (1 + math.exp(Fraction(g)))
    counts = drawn(lambda: bit_flip(Fraction(g), words), 0, 1)
    assert not strange(counts, np.array([1 - p, p]), ALPHA)
    assert strange(counts, np.array([1 - p - 0.1, p + 0.1]), ALPHA)


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", ["1/10", "1", "4"])
def test_the_table_of_a_response_has_the_law_of_the_exact_sampler(
    words: Words, epsilon: str
) -> None:
    """False alarm 1e-6; the last line is the power: a quarter more epsilon is seen from 1 on."""
    claimed = Fraction(epsilon)
    for mechanism in (RandomizedResponseWithMissing(5, claimed), RandomizedResponse(5, claimed)):
        law, symbols = mechanism.likelihood()[:, 2], mechanism.inputs
        draws = 4 * DRAWS if claimed == 1 else DRAWS
        counts = drawn(lambda n=symbols: response(2, n, claimed, words), 0, symbols - 1, draws)
        assert counts.sum() == draws
        assert not strange(counts, law, ALPHA / 2)
        if claimed >= 1:
            assert strange(counts, type(mechanism)(5, claimed * 5 / 4).likelihood()[:, 2], ALPHA)


@pytest.mark.statistical
@pytest.mark.parametrize("scale", ["1/2", "1", "5/3", "20"])
def test_discrete_laplace_has_its_law_and_variance(words: Words, scale: str) -> None:
    """False alarm 1e-6; the last line is the power: a scale a quarter larger is seen."""
    counts = drawn(lambda: discrete_laplace(Fraction(scale), words), -200, 200)
    places = np.arange(-200, 201)

    def law(s: float) -> np.ndarray:
        a = math.exp(-1 / s)
        return a ** np.abs(places) * (1 - a) / (1 + a)

    s = float(Fraction(scale))
    assert not strange(counts, law(s), ALPHA)
    assert strange(counts, law(1.25 * s), ALPHA)
    a = math.exp(-1 / s)
    assert (law(s) * places**2).sum() == pytest.approx(2 * a / (1 - a) ** 2, rel=0.01)


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", ["1", "4"])
def test_the_table_of_laplace_has_the_law_of_the_exact_sampler(words: Words, epsilon: str) -> None:
    """Zheng 2016, Def. 2, drawn step by step: coin, noise, then the ends. False alarm 1e-6."""
    mechanism = ModifiedLaplace(5, Fraction(epsilon))
    scale = 4 / Fraction(epsilon)  # the scale has four steps, and 2 of -1 .. 1 are eps

    def draw(v: int) -> int:
        published = not bit_flip(Fraction(epsilon) / 2, words)
        at = 2
        if v < 5:
            at = v
        else:
            published = not published
        return min(4, max(0, at + discrete_laplace(scale, words))) if published else 5

    for v in (0, 3, 5):
        counts = drawn(lambda v=v: draw(v), 0, 5)
        assert not strange(counts, mechanism.likelihood()[:, v], ALPHA / 3)
        assert strange(counts, ModifiedLaplace(5, 2 * Fraction(epsilon)).likelihood()[:, v], ALPHA)


@pytest.mark.statistical
@pytest.mark.parametrize("variance", ["1/4", "1", "10"])
def test_discrete_gaussian_has_its_law(words: Words, variance: str) -> None:
    """False alarm 1e-6; the last line is the power: a variance a quarter larger is seen."""
    counts = drawn(lambda: discrete_gaussian(Fraction(variance), words), -60, 60)
    places = np.arange(-60, 61)

    def law(v: float) -> np.ndarray:
        weights = np.exp(-(places**2) / (2 * v))
        return weights / weights.sum()

    v = float(Fraction(variance))
    assert not strange(counts, law(v), ALPHA)
    assert strange(counts, law(1.25 * v), ALPHA)


@pytest.mark.statistical
@pytest.mark.parametrize("limit", [1, 2, 3, 10, 1000])
def test_below_is_uniform(words: Words, limit: int) -> None:
    """False alarm 1e-6."""
    counts = drawn(lambda: words.below(limit), 0, limit - 1)
    assert counts.sum() == DRAWS
    if limit > 1:
        assert not strange(counts, np.full(limit, 1 / limit), ALPHA)


def test_below_takes_as_many_words_as_a_limit_needs_and_refuses_the_last_uneven_ones() -> None:
    class Given:
        unsafe = True

        def __init__(self, *words: int) -> None:
            self.given = list(words)

        def words(self, count: int) -> np.ndarray:
            given, self.given = self.given, []
            assert given, "more words than were given"
            return np.array(given, np.uint64)

    top = 2**64 - 1
    assert Words(Given(top, 7)).below(10) == 7  # 2^64 leaves 6 over
    assert Words(Given(top)).below(2**64) == top
    assert Words(Given(1, 5)).below(2**70) == 2**64 + 5
    assert Words(Given(top, top, 0, 1)).below(3 * 2**100) == 1


def test_the_same_words_give_the_same_draws() -> None:
    found = [
        [discrete_laplace(Fraction(3), words) for _ in range(50)]
        for words in (Words(SeededSource(3)), Words(SeededSource(3)))
    ]
    assert found[0] == found[1]


def test_parameters_without_a_law_are_refused(words: Words) -> None:
    for refused in (
        lambda: bern_exp(Fraction(-1), words),
        lambda: words.bernoulli(3, 2),
        lambda: words.below(0),
        lambda: response(5, 5, Fraction(1), words),
        lambda: discrete_laplace(Fraction(0), words),
        lambda: discrete_gaussian(Fraction(0), words),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 (each has its own words)
            refused()
