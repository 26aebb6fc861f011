"""Rates and factors: planted ones are found, noise alone gives none."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.ranking import low_rank
from tests.stream_app.ranking.tables import devices, protected, public

CLUSTERS = 4


def planted(random: np.random.Generator, users: int, items: int) -> np.ndarray:
    """Return the 0 or 1 of devices whose two factors are independent of each other."""
    direction = np.stack([np.resize([1, -1], items), np.resize([1, 1, -1, -1], items)])
    taste = random.choice([-1, 1], (users, 2))
    return (random.random((users, items)) < 0.5 + 0.15 * taste @ direction).astype(np.float32)


@pytest.mark.parametrize("epsilon", [None, 4.0, 2.0, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_as_many_factors_are_found_as_were_planted(epsilon, seed):
    random = np.random.default_rng(seed)
    x = planted(random, 3000, 80)
    found = low_rank.estimate(public(x) if epsilon is None else protected(random, x, epsilon))
    assert found.factors.shape == (80, 2)
    assert found.rates == pytest.approx(x.mean(axis=0), abs=0.12)


@pytest.mark.parametrize("epsilon", [None, 2.0])
def test_planted_factors_explain_the_planted_covariance(epsilon):
    """Covariance .15^2 s s' a factor; 20,000 devices leave an error of about .002 at epsilon 2, of
    which 6 are allowed."""
    random = np.random.default_rng(11)
    x = planted(random, 20_000, 40)
    found = low_rank.estimate(public(x) if epsilon is None else protected(random, x, epsilon))
    direction = np.stack([np.resize([1, -1], 40), np.resize([1, 1, -1, -1], 40)])
    expected = 0.15**2 * direction.T @ direction
    assert found.factors @ found.factors.T == pytest.approx(expected, abs=0.012)


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_independent_items_give_no_factor(epsilon):
    random = np.random.default_rng(7)
    x = (random.random((2000, 100)) < 0.2).astype(np.float32)
    counts = public(x) if epsilon is None else protected(random, x, epsilon)
    assert low_rank.estimate(counts).factors.shape[1] <= 1


def test_rates_are_debiased_and_shrunk_to_their_mean():
    """Rates of .05 .. .5; at epsilon 1 a raw rate of 400 devices is off by .05 on average."""
    random = np.random.default_rng(2)
    truth = np.linspace(0.05, 0.5, 120)
    x = (random.random((400, 120)) < truth).astype(np.float32)
    counts = protected(random, x, 1.0)
    positive, false = counts.channel
    raw = (counts.sums / counts.exposures - false) / (positive - false)
    found = low_rank.rates(counts)
    assert ((found - truth) ** 2).mean() < 0.9 * ((raw - truth) ** 2).mean()
    assert found.min() >= 0
    assert found.mean() == pytest.approx(truth.mean(), abs=0.03)


def test_subspace_iteration_finds_what_the_full_decomposition_finds():
    random = np.random.default_rng(1)
    x = devices(random, users=2000, items=low_rank.DENSE_UP_TO + 50, clusters=9)
    R, _ = low_rank.correlations(public(x), low_rank.rates(public(x)))
    values, vectors = low_rank.leading(R, 8)
    exact, directions = np.linalg.eigh(R)
    assert values == pytest.approx(exact[::-1][:8], rel=1e-3)
    cosines = np.sum(vectors * directions[:, ::-1][:, :8], axis=0)
    assert (np.abs(cosines) > 0.99).all()


def test_a_start_from_earlier_factors_leads_to_the_same_factors():
    random = np.random.default_rng(4)
    counts = public(devices(random, users=1500, items=low_rank.DENSE_UP_TO + 50, clusters=7))
    cold = low_rank.estimate(counts).factors
    warm = low_rank.estimate(counts, start=cold).factors
    assert warm @ warm.T == pytest.approx(cold @ cold.T, abs=1e-3)


def test_an_item_that_never_varies_takes_no_part():
    x = devices(np.random.default_rng(3), users=1000)
    x[:, 5], x[:, 9] = 0, 1
    found = low_rank.estimate(public(x))
    assert found.factors.shape[1] == CLUSTERS - 1
    assert not found.factors[[5, 9]].any()


def test_an_eigenvalue_is_shrunk_and_below_the_edge_says_nothing():
    assert low_rank.strength(50.0, 0.0) == pytest.approx(49.0)
    assert 0 < low_rank.strength(50.0, 0.5) < 49.0
    assert low_rank.strength((1 + 0.5**0.5) ** 2, 0.5) == pytest.approx(0, abs=1e-6)
    assert low_rank.strength(0.5, 0.5) == 0
