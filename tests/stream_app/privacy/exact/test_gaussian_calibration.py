"""The bounds of Gaussian noise: against known numbers, floating point and brute force."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from stream_app.privacy.exact import gaussian_calibration as gaussian
from stream_app.privacy.exact.gaussian_calibration import (
    analytic_delta,
    analytic_variance,
    density,
    exponential,
    lattice_delta,
    least_steps,
    lemma_variance,
    normal,
    root,
)

MICRO = Fraction(1, 10**6)


def sigma(epsilon: str, delta: Fraction) -> float:
    return math.sqrt(analytic_variance(Fraction(epsilon), delta))


@pytest.mark.parametrize(
    ("epsilon", "delta", "wanted"), [("1", 5, 3.7306), ("1", 6, 4.2247)], ids=str
)
def test_the_analytic_gaussian_has_its_known_deviations(
    epsilon: str, delta: int, wanted: float
) -> None:
    assert sigma(epsilon, Fraction(1, 10**delta)) == pytest.approx(wanted, abs=6e-5)


@pytest.mark.parametrize(
    ("epsilon", "analytic", "lemma"),
    [
        ("1/10", 38.6, 149),
        ("1/2", 8.57, 29.7),
        ("1", 4.49, 14.9),
        ("2", 2.37, 7.4),
        ("3", 1.64, 5.0),
        ("6", 0.89, 2.5),
    ],
)
def test_the_lemma_of_the_thesis_takes_three_times_the_noise_or_more(
    epsilon: str, analytic: float, lemma: float
) -> None:
    # The codewords of the thesis have lengths up to 1.063 at L = 1000.
    assert 1.063 * sigma(epsilon, MICRO) == pytest.approx(analytic, rel=0.004)
    taken = math.sqrt(lemma_variance(Fraction(epsilon), MICRO))
    assert taken == pytest.approx(lemma, rel=0.01)
    assert 2.7 < taken / (1.063 * sigma(epsilon, MICRO)) < 4


def test_the_lemma_is_rounded_up() -> None:
    for epsilon, delta in (("6", 10), ("1/10", 10), ("2", 10**6)):
        exact = 16 * math.log(delta) / float(Fraction(epsilon)) ** 2
        found = lemma_variance(Fraction(epsilon), Fraction(1, delta))
        assert exact * (1 - 1e-14) <= found <= exact * (1 + 1e-9)


def test_the_digits_of_pi_are_right() -> None:
    unit = 10**90

    def arctan_of_inverse(n: int) -> int:
        total, term, k = 0, unit // n, 0
        while term:
            total += (-1) ** k * term // (2 * k + 1)
            term, k = term // (n * n), k + 1
        return total

    pi = Fraction(4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239)), unit)  # Machin 1706
    assert gaussian._PI[0] < pi < gaussian._PI[1]


@pytest.mark.parametrize("x", [-38, -20, -9, -4.5, -1, -0.01, 0, 0.3, 2, 7])
def test_the_normal_distribution_lies_within_its_bounds(x: float) -> None:
    low, high = normal(Fraction(x))
    true = math.erfc(-x / math.sqrt(2)) / 2
    assert float(low) * (1 - 1e-12) <= true <= float(high) * (1 + 1e-12)
    # Far out the bounds stay bounds; a delta of 1e-90 needs no digits.
    assert 0 <= high - low <= max(1e-30 * float(min(high, 1 - low)), 1e-90)


def test_bounds_hold_the_number_between_them() -> None:
    assert [float(bound) for bound in exponential(Fraction(-1))] == [math.exp(-1)] * 2
    low, high = root(Fraction(2))
    assert low * low < 2 < high * high
    assert [float(bound) for bound in density(Fraction(0))] == [1 / math.sqrt(2 * math.pi)] * 2


@pytest.mark.parametrize("epsilon", ["1/10", "1", "6", "30"])
def test_delta_is_bounded_tightly_from_both_sides(epsilon: str) -> None:
    variance = analytic_variance(Fraction(epsilon), MICRO)
    low, high = analytic_delta(Fraction(epsilon), variance)
    assert low <= high <= MICRO
    assert high - low < MICRO * Fraction(1, 10**20)
    assert analytic_delta(Fraction(epsilon), variance * Fraction(999, 1000))[0] > MICRO


def exact_delta(epsilon: float, variance: float, length: int) -> float:
    """Delta of `length` discrete Gaussians on a move of signs, from the law of their sum."""
    reach = math.ceil(12 * math.sqrt(variance))
    n = np.arange(-reach, reach + 1)
    single = np.exp(-(n**2) / (2 * variance))
    single /= single.sum()
    law = np.ones(1)
    for _ in range(length):
        law = np.convolve(law, single)
    moved = np.concatenate([np.zeros(length), law])  # the sum moves by L
    stays = np.concatenate([law, np.zeros(length)])
    return float(np.maximum(stays - math.exp(epsilon) * moved, 0).sum())


@pytest.mark.parametrize("length", [1, 2, 8, 60])
@pytest.mark.parametrize("variance", [4, 9, 50])
@pytest.mark.parametrize("epsilon", ["1/10", "1/2", "1", "3"])
def test_the_bound_on_the_lattice_is_above_brute_force_and_near_it(
    epsilon: str, variance: int, length: int
) -> None:
    exact = exact_delta(float(Fraction(epsilon)), variance, length)
    bound = float(lattice_delta(Fraction(epsilon), Fraction(variance), length))
    assert bound >= exact * (1 - 1e-9) - 1e-13
    # The maximum of the summand comes on top of the integral; it counts where there are few.
    if length >= 8:
        assert bound <= 1.3 * exact + 1e-9


def test_half_of_the_noise_does_not_pass_as_enough() -> None:
    variance = analytic_variance(Fraction(1), MICRO) * 1000
    assert lattice_delta(Fraction(1), variance * Fraction(1001, 1000), 1000) <= MICRO
    assert lattice_delta(Fraction(1), variance / 2, 1000) > 50 * MICRO
    assert lattice_delta(Fraction(1), variance * Fraction(999, 1000), 1000) > MICRO


def test_too_little_noise_for_the_proof_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 4"):
        lattice_delta(Fraction(1), Fraction(3), 10)


@pytest.mark.parametrize("guess", [1, 3, 99, 100, 101, 5000])
def test_the_least_steps_do_not_depend_on_the_guess(guess: int) -> None:
    assert least_steps(lambda steps: steps >= 100, guess) == 100
    assert least_steps(lambda steps: steps >= 1, guess) == 1
