"""Projections: the bound against the noise table itself, value by value, and the Gaussian curve."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest

from stream_app.privacy.accounting.gaussian import ProjectionLoss, gaussian_delta, gaussian_epsilon
from stream_app.privacy.accounting.loss_distribution import LossDistribution
from stream_app.privacy.accounting.whole_person import parse, renyi_cost
from stream_app.privacy.exact.discrete_gaussian import TOTAL, NoiseTable
from stream_app.privacy.exact.gaussian_calibration import exponential

F = Fraction
TABLE = NoiseTable(F(4))


def chance(n: int) -> int:
    return TABLE.counts[abs(n)] if abs(n) <= TABLE.reach else 0


def exact_delta(shifts: tuple[int, ...], epsilon: Fraction) -> float:
    """Return delta of a vector of noise against the same vector moved by `shifts`, in integers."""
    ratio, total = exponential(epsilon)[1], F(0)
    values = range(-TABLE.reach, TABLE.reach + 1)
    for noise in product(values, repeat=len(shifts)):
        p = math.prod(chance(n) for n in noise)
        q = math.prod(chance(n + s) for n, s in zip(noise, shifts, strict=True))
        if p * ratio.denominator > q * ratio.numerator:
            total += p - ratio * q
    return float(total / TOTAL ** len(shifts))


@pytest.mark.parametrize("epsilon", [F(3, 10), F(11, 10), F(21, 10)])
@pytest.mark.parametrize("items", [1, 2])
def test_the_bound_of_a_projection_covers_every_move(epsilon, items):
    bound = LossDistribution.single(ProjectionLoss.of_table(TABLE, 2, items)).delta(float(epsilon))
    moves = [m for m in product(range(-items, items + 1), repeat=2) if m[0] >= abs(m[1])]
    found = {move: exact_delta(move, epsilon) for move in moves}
    largest = max(found.values())
    assert largest == found[items, items]
    assert largest <= bound <= largest * (1 + 1e-5)


def test_a_move_as_wide_as_the_table_is_an_infinite_loss():
    wide = ProjectionLoss.of_table(TABLE, 2, TABLE.reach + 1)
    assert wide.edge == 1
    assert LossDistribution.single(wide).delta(50.0) == 1.0
    with pytest.raises(ValueError, match="at least one item"):
        ProjectionLoss.of_table(TABLE, 2, 0)


@pytest.mark.parametrize(
    ("square", "delta", "epsilon"),
    # Balle and Wang 2018: sigma 3.7306 is (1, 1e-5), 4.2247 is (1, 1e-6); mu^2 = 1 / sigma^2.
    [(1 / 3.7306**2, 1e-5, 1.0), (1 / 4.2247**2, 1e-6, 1.0)],
)
def test_the_curve_of_a_gaussian_has_its_known_values(square, delta, epsilon):
    found = gaussian_epsilon(F(delta), F(square))
    assert float(found) == pytest.approx(epsilon, abs=1e-4)
    assert gaussian_delta(found, F(square))[1] <= F(delta)
    assert gaussian_delta(found - F(2, 2**30), F(square))[0] > F(delta)


def test_no_move_costs_nothing():
    assert gaussian_epsilon(F(1, 10**6), F(0)) == 0
    assert gaussian_epsilon(F(1, 2), F(1, 10**6)) == 0


def test_noise_of_a_large_variance_is_counted_in_blocks():
    """A standard deviation of 2000 and many coordinates: more values of the sum than blocks."""
    loss = ProjectionLoss.of_table(NoiseTable(F(2000**2)), 16_384, 1)
    composed = LossDistribution.single(loss).self_composed(10)
    exact = float(gaussian_epsilon(F(1, 10**6), loss.square(10)))
    assert exact < composed.epsilon(1e-6) < exact * (1 + 1e-3)


def test_the_divergence_of_a_projection_is_that_of_the_gaussian_and_a_little():
    id = "jlt:200:1/2:1/1000000"
    exact = F(5, 2) * 200 / parse(id).variance / 2
    divergence, event = renyi_cost(id, F(5, 2), 1)
    assert exact * 2**40 <= divergence <= exact * 2**40 * (1 + F(1, 10**6)) + 1
    assert 0 < event < 2**120 // 10**15
    assert renyi_cost(id, F(5, 2), 3)[0] > 8 * divergence
