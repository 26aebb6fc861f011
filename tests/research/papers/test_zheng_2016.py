"""The figures of Zheng 2016 on made-up ratings: their shapes, and the numbers that are known."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from research.papers import zheng_2016
from research.papers.figure import StarRatings

pytestmark = pytest.mark.thorough

EPSILONS = (Fraction(1), Fraction(8))


@pytest.fixture(scope="module")
def ratings() -> StarRatings:
    """Give ratings of 120 users with two tastes."""
    draws = np.random.default_rng(0)
    users, items = np.nonzero(draws.random((120, 60)) < 0.4)
    liked = (users % 2) == (items % 2)
    stars = np.clip(np.where(liked, 4, 2) + draws.integers(-1, 2, len(users)), 1, 5)
    return StarRatings(users.astype(np.uint64), items.astype(np.uint64), stars.astype(np.float64))


def test_the_volume_is_that_of_the_channels(ratings: StarRatings) -> None:
    found = zheng_2016.f1(ratings)
    empty = 60 - len(ratings.users) / 120
    # Spec of the mechanisms: a missing cell is published with .4036 (response), .2689 (Laplace).
    assert found.named("response, fake").at(2) == pytest.approx(0.4036 * empty, rel=1e-3)
    assert found.named("Laplace, fake").at(2) == pytest.approx(0.2689 * empty, rel=1e-3)
    assert found.published[0].agrees


def test_errors_fall_with_epsilon_and_the_exact_channel_is_not_worse(
    ratings: StarRatings,
) -> None:
    seen: list[tuple[int, int]] = []
    found = zheng_2016.f2(
        ratings, scope=40, epsilons=EPSILONS, progress=lambda *step: seen.append(step)
    )
    for name in ("response", "Laplace"):
        curve = found.named(f"{name}, exact channel")
        assert curve.at(8) < curve.at(1)
    naive, exact = found.named("response, read as ratings"), found.named("response, exact channel")
    assert exact.at(1) < naive.at(1)
    assert seen == [(step + 1, 8) for step in range(8)]


@pytest.mark.thorough
def test_the_recovery_beats_the_mean_where_the_noise_is_small_and_the_bound_is_vacuous(
    ratings: StarRatings,
) -> None:
    found = zheng_2016.c1(ratings, epsilons=EPSILONS)
    solved, mean = found.named("nuclear norm, held-out ratings"), found.named("mean of all reports")
    assert solved.at(8) < mean.at(8)
    assert found.named("bound (7) / C0, response").at(1) > 4
    assert not found.published[0].agrees


def test_other_scales_are_refused(ratings: StarRatings) -> None:
    with pytest.raises(ValueError, match="the stars 1, 2, 3, 4 and 5"):
        zheng_2016.f1(ratings._replace(stars=ratings.stars + 0.5))
