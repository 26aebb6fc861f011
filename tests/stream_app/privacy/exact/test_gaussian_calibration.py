"""The bounds of Gaussian noise: against known numbers, floating point and brute force."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from stream_app.privacy.exact import gaussian_calibration as gaussian
from stream_app.privacy.exact.gaussian_calibration import (
    analytic_delta,
    analytic_variance,
    density,
    exponential,
    gaussian_delta,
    gaussian_epsilon,
    least_steps,
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


@pytest.mark.parametrize(
    ("square", "delta", "epsilon"),
    # Balle and Wang 2018: sigma 3.7306 is (1, 1e-5), 4.2247 is (1, 1e-6); mu^2 = 1 / sigma^2.
    [(1 / 3.7306**2, 1e-5, 1.0), (1 / 4.2247**2, 1e-6, 1.0)],
)
def test_the_curve_of_a_gaussian_has_its_known_values(
    square: float, delta: float, epsilon: float
) -> None:
    found = gaussian_epsilon(Fraction(delta), Fraction(square))
    assert float(found) == pytest.approx(epsilon, abs=1e-4)
    assert gaussian_delta(found, Fraction(square))[1] <= Fraction(delta)
    assert gaussian_delta(found - Fraction(2, 2**30), Fraction(square))[0] > Fraction(delta)


def test_no_move_costs_nothing() -> None:
    assert gaussian_epsilon(MICRO, Fraction(0)) == 0
    assert gaussian_epsilon(Fraction(1, 2), MICRO) == 0


@pytest.mark.parametrize("guess", [1, 3, 99, 100, 101, 5000])
def test_the_least_steps_do_not_depend_on_the_guess(guess: int) -> None:
    assert least_steps(lambda steps: steps >= 100, guess) == 100
    assert least_steps(lambda steps: steps >= 1, guess) == 1
