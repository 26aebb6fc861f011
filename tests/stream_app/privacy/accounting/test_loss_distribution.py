"""Composed bounds are never below the truth and hardly above it, against every product in full."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stream_app.privacy.accounting.dominating_pair import DominatingPair
from stream_app.privacy.accounting.loss_distribution import LossDistribution, PairLoss
from stream_app.privacy.accounting.loss_grid import on_grid, split
from stream_app.privacy.accounting.whole_person import report_loss
from stream_app.privacy.exact.gaussian_calibration import exponential
from tests.naive.losses import within, worst_delta
from tests.stream_app.privacy.accounting.test_dominating_pair import SMALL, rows

ROUNDED = 1e-9  # what a bound may add to delta relative to itself ...
LEAST = 1e-15  # ... and absolutely
NEAR = Fraction(1, 10**6)  # the bound at epsilon is no worse than the truth at epsilon (1 - NEAR)


def of_pairs(pairs, total=SMALL):
    return LossDistribution.single(PairLoss(DominatingPair.covering(pairs, total)))


def around(ratio: Fraction) -> tuple[float, float]:
    """Return floats below and above ln(ratio)."""
    at = math.log(ratio)
    return at * (1 - 1e-15), at * (1 + 1e-15)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(rows(3), rows(3)), min_size=1, max_size=2),
    st.integers(1, 3),
    st.fractions(1, 30, max_denominator=6),
)
def test_any_small_channel_composed_with_itself(pairs, count, ratio):
    truth = worst_delta([pairs], within((count,)), ratio, SMALL)
    composed = of_pairs(pairs).self_composed(count)
    below, above = around(ratio)
    assert composed.delta(below) >= truth
    # It is the product of the covering pair, which dominates every strategy.
    cover = DominatingPair.covering(pairs, SMALL)
    product = worst_delta([[tuple(zip(*cover.atoms, strict=True))]], within((count,)), ratio, SMALL)
    assert product >= truth
    assert composed.delta(above) <= float(product) * (1 + 1e-4) + 1e-5


@settings(deadline=None, max_examples=30)
@given(rows(3), rows(3), rows(2), rows(2), st.fractions(1, 12, max_denominator=6))
def test_two_channels_in_any_order(p, q, p2, q2, ratio):
    truth = worst_delta([[(p, q)], [(p2, q2)]], within((2, 1)), ratio, SMALL)
    both = of_pairs([(p, q)]).self_composed(2).compose(of_pairs([(p2, q2)]))
    assert both.delta(around(ratio)[0]) >= truth


@pytest.mark.parametrize("id", ["rr:5:1/2", "cell:5:1:1/3", "ternary:3:1/2", "laplace:3:1/2:1/2"])
@pytest.mark.parametrize("count", [1, 2, 7, 30])
def test_multinomials_of_a_table_in_fractions(id, count):
    """Every count of every output, summed exactly: never below it, and within 1e-6 of epsilon."""
    loss = report_loss(id)
    for direction in (loss.forward, loss.backward):
        ((member, _),) = direction.members
        atoms = [(p, q) for p, q in member.pair.atoms]
        outcomes = exact_law(atoms, min(count, 30 if len(atoms) < 4 else 7))
        composed = direction.self_composed(min(count, 30 if len(atoms) < 4 else 7))
        for share in (0.1, 0.5, 0.9):
            epsilon = share * composed.epsilon(0.0)
            high = exponential(Fraction(epsilon))[1]
            low = exponential(Fraction(epsilon) * (1 - NEAR))[0]
            truth = sum((max(Fraction(0), p - high * q) for p, q in outcomes), Fraction(0))
            nearer = sum((max(Fraction(0), p - low * q) for p, q in outcomes), Fraction(0))
            found = composed.delta(epsilon)
            assert found >= truth
            assert found <= nearer * (1 + ROUNDED) + LEAST


def exact_law(atoms: list[tuple[int, int]], count: int) -> list[tuple[Fraction, Fraction]]:
    found = []
    for drawn in combinations_with_replacement(range(len(atoms)), count):
        times = [drawn.count(k) for k in range(len(atoms))]
        ways = math.factorial(count) // math.prod(math.factorial(n) for n in times)
        p = math.prod(atoms[k][0] ** n for k, n in enumerate(times))
        q = math.prod(atoms[k][1] ** n for k, n in enumerate(times))
        found.append((Fraction(ways * p, 2 ** (64 * count)), Fraction(ways * q, 2 ** (64 * count))))
    return found


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9, 1e-12, 1e-15])
def test_a_tiny_delta_is_resolved_as_well_as_a_large_one(delta):
    """80 responses: the exact law of the number of kept and lost levels, in integers."""
    count, loss = 80, report_loss("rr:5:1/2")
    epsilon = loss.self_composed(count).epsilon(delta)
    ((member, _),) = loss.forward.members
    (keep, lose), (other, _), _ = member.pair.atoms
    high = exponential(Fraction(epsilon) * (1 - Fraction(1, 10**9)))[1]
    truth, closer = Fraction(0), Fraction(0)
    exact = exponential(Fraction(epsilon))[1]
    for up in range(count + 1):
        for down in range(count - up + 1):
            if (up - down) * 0.5 < epsilon - 1:
                continue
            ways = math.comb(count, up) * math.comb(count - up, down)
            rest = other ** (count - up - down)
            p, q = keep**up * lose**down * rest, lose**up * keep**down * rest
            truth += max(Fraction(0), ways * (p - exact * q))
            closer += max(Fraction(0), ways * (p - high * q))
    weight = 2 ** (64 * count)
    assert truth / weight <= Fraction(delta) < closer / weight


def test_an_infinite_loss_is_part_of_delta():
    once = of_pairs([((3, SMALL - 3), (0, SMALL))])
    assert once.epsilon(0.0) == math.inf
    assert once.epsilon(0.1) == math.inf
    assert once.epsilon(0.126) < 0.1
    twice = once.self_composed(2).delta(5.0)
    assert 1 - (7 / 8) ** 2 <= twice <= 1 - (7 / 8) ** 2 + 1e-8


def test_no_release_costs_nothing_and_a_sum_is_never_exceeded():
    assert LossDistribution().epsilon(1e-6) == LossDistribution().delta(0.0) == 0.0
    assert report_loss("rr:5:1").forward.self_composed(0) == LossDistribution()
    for count in (1, 3, 50):
        composed = report_loss("rr:5:1").forward.self_composed(count)
        assert composed.epsilon(0.0) <= count
        assert composed.epsilon(1e-15) <= composed.epsilon(0.0)
        assert composed.delta(float(count)) == 0.0


def test_many_thousand_reports_are_as_a_gaussian():
    """10,000 reports of 1/100: close to G(mu) with mu^2 the sum of the variances of the losses."""
    composed = report_loss("rr:5:1/100").forward.self_composed(10_000)
    assert composed.epsilon(1e-6) == pytest.approx(2.92635, abs=1e-4)
    assert composed.delta(composed.epsilon(1e-6)) <= 1e-6


@pytest.mark.parametrize(("epsilon", "delta"), [(-1.0, 0.5), (1.0, -0.5), (1.0, 1.5)])
def test_what_is_no_budget_is_refused(epsilon, delta):
    composed = report_loss("rr:5:1").forward
    with pytest.raises(ValueError, match=r"epsilon|delta"):
        composed.delta(epsilon) if epsilon < 0 else composed.epsilon(delta)
    with pytest.raises(ValueError, match="0 or more releases"):
        composed.self_composed(-1)


@settings(deadline=None, max_examples=30)
@given(rows(4, 1000), rows(4, 1000), st.fractions(Fraction(1, 50), 2, max_denominator=50))
def test_a_grid_dominates_the_pair_and_keeps_its_mass(p, q, spacing):
    pair = DominatingPair.covering([(p, q)], 1000)
    assume(any(p and q for p, q in pair.atoms))
    grid = on_grid(pair, spacing)
    assert grid.masses.sum() + grid.infinite == pytest.approx(1.0, abs=1e-12)
    masses = list(zip(grid.places.tolist(), map(Fraction, grid.masses.tolist()), strict=True))
    for place in range(-3, 12):
        # At the grid points the curves are equal, up to the rounding of masses.
        ratio = exponential(place * spacing)
        found = sum(
            (mass * max(Fraction(0), 1 - exponential((place - a) * spacing)[0])
             for a, mass in masses), Fraction(grid.infinite),
        )  # fmt: skip
        assert found >= pair.delta(ratio[1])
        assert float(found) == pytest.approx(float(pair.delta(ratio[0])), abs=1e-12)


@given(st.floats(-3, 3), st.fractions(Fraction(1, 50), 2, max_denominator=50))
def test_a_split_of_floats_is_the_split_of_fractions(loss, spacing):
    import numpy as np

    grid = split(np.array([loss]), np.array([0.5]), spacing, 0.0)
    assert 0.5 <= grid.masses.sum() <= 0.5 * (1 + 1e-8)
    kept = float((grid.masses * np.exp(-grid.places * float(spacing))).sum())
    assert kept == pytest.approx(0.5 * math.exp(-loss), rel=1e-8)
