"""F6 and F7 on made-up ratings: what is known of their curves."""

from __future__ import annotations

import numpy as np
import pytest

from research.papers import park_2011_sets
from research.papers.figure import StarRatings

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def ratings() -> StarRatings:
    """Give ratings of 150 users of 80 items with two tastes."""
    draws = np.random.default_rng(0)
    users, items = np.nonzero(draws.random((150, 80)) < 0.5)
    liked = (users % 2) == (items % 2)
    stars = np.clip(np.where(liked, 4, 2) + draws.integers(-1, 2, len(users)), 1, 5)
    return StarRatings(users.astype(np.uint64), items.astype(np.uint64), stars.astype(np.float64))


def test_the_overlap_of_the_private_sets_rises_and_that_of_the_chain_is_the_leak(
    ratings: StarRatings,
) -> None:
    seen: list[tuple[int, int]] = []
    found = park_2011_sets.f6(ratings, people=8, progress=lambda *step: seen.append(step))
    assert min(found.named("chain of the paper").y) >= 0.9
    assert found.published[0].agrees
    exact, peeled = found.named("exact, all sets"), found.named("one after another")
    for curve in (exact, peeled):
        assert abs(curve.y[0] - 10 / 80) < 0.12
        assert curve.y[-1] > curve.y[0]
    assert exact.at(100) > peeled.at(100) + 0.1  # one choice is paid for instead of ten
    assert not found.published[1].agrees
    assert seen[-1] == (8, 8)


def test_independent_draws_are_at_the_noise_floor_and_a_still_chain_looks_converged(
    ratings: StarRatings,
) -> None:
    found = park_2011_sets.f7(ratings, steps=20_000)
    drawn = found.named("independent draws, epsilon 1")
    inside = 20_000 * 10 / 139  # of the 139 sets ten are compared
    assert drawn.y[-1] < 6 * 9 / (2 * inside)
    assert found.named("chain, epsilon 100").y == (1e-12,) * len(found.series[-1].y)
    assert found.published[1].agrees
    assert not found.published[0].agrees


def test_what_has_no_sets_is_refused(ratings: StarRatings) -> None:
    few = StarRatings(*(column[ratings.items < 9] for column in ratings))
    with pytest.raises(ValueError, match="9 items"):
        park_2011_sets.completed(few, 1, 0)
    with pytest.raises(ValueError, match="no user has 20"):
        park_2011_sets.completed(StarRatings(*(column[:19] for column in ratings)), 1, 0)
