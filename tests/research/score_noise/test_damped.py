"""Lists by damped scores: their guarantee on exact likelihoods, and what they refuse."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from research.score_noise.damped import ROUNDING, DampedLists
from research.score_noise.printed import PrintedLaplace, slope_one_sensitivity
from research.similarity import cosine, slope_one
from research.similarity.table import from_ratings
from stream_app.privacy.randomness import SystemSource

KEYS = np.arange(5, dtype=np.uint64)


@pytest.mark.parametrize("method", ["slope-one", "cosine"])
def test_no_list_tells_another_users_whole_profile_by_more_than_epsilon(method: str) -> None:
    """All ordered pairs of 5 items, for 60 random pairs of tables; `worst` shows that it bites."""
    lists = DampedLists(method, Fraction(2), 2, damping=1.0, least_profile=2)
    generator = np.random.default_rng(8)
    worst = 0.0
    for _ in range(60):
        cells = [(user, item) for user in range(1, 5) for item in range(5)]
        cells = [cell for cell in cells if generator.random() < 0.7]
        stars = generator.integers(1, 6, len(cells)).astype(float)
        users, items = np.array(cells).T
        slots, own = np.array([0, 1]), np.array([5.0, 1.0])
        without = users != 1
        tables = [
            from_ratings(users[kept], items[kept], stars[kept], KEYS)
            for kept in (np.full(len(cells), True), without)
        ]
        first, second = (lists.scores(table, slots, own) for table in tables)
        assert np.abs(first - second).max() <= lists.sensitivity + 1e-6
        for places in permutations(range(5), 2):
            loss = lists.selection.log_likelihood(places, first)
            loss -= lists.selection.log_likelihood(places, second)
            worst = max(worst, abs(loss))
    assert 0.1 < worst <= 2 + 1e-9


def test_a_list_has_k_different_items_and_none_that_is_left_out() -> None:
    slots = np.array([0, 3])
    scores = np.linspace(1, 5, 5)
    open_list = DampedLists("slope-one", Fraction(1), 5)
    assert sorted(open_list.release(scores, slots, SystemSource()).tolist()) == [0, 1, 2, 3, 4]
    unseen = DampedLists("slope-one", Fraction(1), 3, rated_left_out=True)
    assert sorted(unseen.release(scores, slots, SystemSource()).tolist()) == [1, 2, 4]
    with pytest.raises(ValueError, match="4 items of 3"):
        DampedLists("slope-one", Fraction(1), 4, rated_left_out=True).release(
            scores, slots, SystemSource()
        )


def test_equal_scores_and_users_with_one_rating_have_lists() -> None:
    table = from_ratings([1], [0], [4.0], KEYS)
    for method in ("slope-one", "cosine"):
        lists = DampedLists(method, Fraction(1), 2)
        scores = lists.scores(table, np.array([0]), np.array([4.0]))
        assert np.isfinite(scores).all()
        assert len(set(lists.release(scores, np.array([0]), SystemSource()).tolist())) == 2


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan])
def test_an_epsilon_that_is_none_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        DampedLists("cosine", epsilon, 5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="epsilon"):
        PrintedLaplace(epsilon, slope_one_sensitivity())


def test_other_methods_and_empty_profiles_are_refused() -> None:
    with pytest.raises(ValueError, match="slope-one or cosine"):
        DampedLists("als", Fraction(1), 5)
    with pytest.raises(ValueError, match="1 or more"):
        slope_one_sensitivity(0, 10)


@pytest.mark.parametrize("method", ["slope-one", "cosine"])
def test_the_error_of_a_computed_score_is_within_what_the_levels_allow(method: str) -> None:
    """4,000 rated items, against the same sums in double precision."""
    size = 4_001
    generator = np.random.default_rng(2)
    rows = generator.random((size, size), np.float32)
    slots, stars = np.arange(1, size), generator.integers(1, 6, size - 1).astype(float)
    if method == "cosine":
        found = cosine.scores(rows, slots, 20)[:1]
        exact = rows[1:, :1].sum(axis=0, dtype=float) / (size - 1)
    else:
        rows -= rows.T
        found = slope_one.predict(rows, slots, stars, 20)[:1]
        terms = np.clip(stars - rows[1:, 0].astype(float), 1, 5) - 3
        exact = 3 + terms.sum(keepdims=True) / (size - 1)
    assert np.abs(found - exact).max() < ROUNDING


def test_a_profile_beyond_that_bound_is_refused() -> None:
    table = from_ratings([1], [0], [4.0], KEYS)
    with pytest.raises(ValueError, match="at most 4,096"):
        DampedLists("cosine", Fraction(1), 2).scores(table, np.zeros(5_000, int), np.ones(5_000))
