"""The utility bound: its numbers at the density of MovieLens 100K, and what it cannot say."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from research.completion import laplace_bound, response_bound, rmse_bound
from stream_app.privacy.randomness import SeededSource
from stream_app.privacy.ratings.randomized_response_missing import RandomizedResponseWithMissing

CELLS, RATED = 943 * 1682, 100_000


@pytest.mark.claims
@pytest.mark.parametrize(("epsilon", "stars"), [(1, 35), (2, 34), (4, 28), (8, 5.8), (12, 0.8)])
def test_the_bound_of_the_response_is_vacuous_below_an_epsilon_of_eight(
    epsilon: float, stars: float
) -> None:
    change = 1 / (math.exp(epsilon) + 5)
    share = RATED / CELLS
    published = share * (1 - change) + (1 - share) * 5 * change
    bound = rmse_bound(response_bound(epsilon, CELLS, RATED), CELLS, published)
    assert bound == pytest.approx(stars, rel=0.025)  # where a scale of 1 .. 5 is 4 stars wide


def test_the_bounds_fall_with_epsilon_to_the_error_of_the_low_rank_matrix() -> None:
    for bound in (laplace_bound, response_bound):
        values = [bound(eps, CELLS, RATED, rho0=0.9) for eps in (1.0, 2.0, 4.0, 8.0, 600.0)]
        assert values == sorted(values, reverse=True)
        assert values[-1] == pytest.approx(0.9 * math.sqrt(RATED), rel=0.1)


def test_the_noise_of_the_mechanism_stays_within_the_bound() -> None:
    # Theorem 3 by the mechanism itself: 200 draws of a 30 x 20 matrix, gamma = .1.
    draws, source = np.random.default_rng(0), SeededSource(1)
    mechanism = RandomizedResponseWithMissing(5, Fraction(2))
    whole = draws.integers(0, 5, (30, 20))
    cells = np.where(draws.random(whole.shape) < 0.2, whole, 5).reshape(-1).astype(np.uint8)
    bound = response_bound(2.0, whole.size, int((cells < 5).sum()))
    distances = []
    for _ in range(200):
        reports = mechanism.release(cells, source).astype(int).reshape(whole.shape)
        distances.append(np.linalg.norm((reports - whole)[reports < 5]))
    assert np.quantile(distances, 0.9) <= bound
    assert bound < 20 * max(distances)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_an_epsilon_without_a_bound_is_refused(epsilon: float) -> None:
    for bound in (laplace_bound, response_bound):
        with pytest.raises(ValueError, match="epsilon"):
            bound(epsilon, CELLS, RATED)


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="of 10 cells"):
        response_bound(1.0, 10, 11)
    with pytest.raises(ValueError, match="stars 1"):
        response_bound(1.0, 10, 5, stars=1)
    with pytest.raises(ValueError, match="gamma"):
        laplace_bound(1.0, 10, 5, gamma=1.0)
    with pytest.raises(ValueError, match="rho0"):
        laplace_bound(1.0, 10, 5, rho0=-1.0)
    with pytest.raises(ValueError, match="published"):
        rmse_bound(1.0, 10, 0.0)
