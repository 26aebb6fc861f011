"""Noise once over a small population of two tastes: lists and stars, with noise and without."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from research.noise_once import (
    Rows,
    noise_once_lists,
    noise_once_stars,
    recent_lists,
)
from stream_app.evaluation.ranking import ranking_task

USERS, ITEMS, EACH = 300, 40, 14


def population(seed: int = 3) -> Rows:
    """Return users of two tastes: each rates 14 items of its half of the catalogue, and 3 others
    lower."""
    generator = np.random.default_rng(seed)
    users, items, stars = [], [], []
    for user in range(USERS):
        own = np.arange(ITEMS // 2) + (user % 2) * ITEMS // 2
        other = np.arange(ITEMS // 2) + (1 - user % 2) * ITEMS // 2
        liked, rest = generator.choice(own, EACH, False), generator.choice(other, 3, False)
        rated = generator.permutation(np.concatenate([liked, rest]))
        users += [user] * len(rated)
        items += rated.tolist()
        level = np.where(np.isin(rated, own), 4.5, 1.5) + 0.5 * (rated % 2)
        stars += np.clip(np.rint(level + generator.normal(0, 0.4, len(rated))), 1, 5).tolist()
    return Rows(np.array(users), np.array(items), np.array(stars))


def test_lists_are_better_than_popular_ones_with_noise_and_without() -> None:
    rows = population()
    task = ranking_task(
        rows.users.astype(np.uint64), rows.items.astype(np.uint64), rows.stars, rows.stars >= 4
    )
    clean = noise_once_lists(task, None, scope=ITEMS)
    noised = noise_once_lists(task, Fraction(8), scope=ITEMS, seed=2)
    assert clean.similar.ndcg > noised.popular.ndcg + 0.1
    assert noised.similar.ndcg > noised.popular.ndcg + 0.1
    assert clean.by_recency.ndcg > clean.popular.ndcg + 0.1
    assert clean.by_recency != clean.similar
    assert clean.deviation < 1e-3 < noised.deviation


def offsets(seed: int = 4) -> Rows:
    """Return users and items of different means, which is what Slope One is for."""
    generator = np.random.default_rng(seed)
    users, items = (each.ravel() for each in np.indices((USERS, ITEMS)))
    kept = generator.random(len(users)) < 0.4
    user, item = generator.normal(0, 0.8, USERS), generator.normal(0, 0.8, ITEMS)
    stars = np.clip(3 + user[users] + item[items] + generator.normal(0, 0.3, len(users)), 1, 5)
    return Rows(users, items, stars).part(kept)


def test_noise_costs_accuracy_of_slope_one_and_a_little_noise_little() -> None:
    rows = offsets()
    found = {
        epsilon: noise_once_stars(rows, epsilon, scope=ITEMS, seed=1)
        for epsilon in (None, Fraction(50), Fraction(1, 4))
    }
    clean, little, much = found.values()
    assert clean.slope_one < clean.item_means - 0.1
    assert abs(little.slope_one - clean.slope_one) < 0.1 < much.slope_one - clean.slope_one
    assert clean.tested == little.tested > 500
    assert math.isclose(clean.item_means, much.item_means)


def test_a_device_adds_its_newest_ratings_of_the_scope() -> None:
    rows = Rows(np.array([0, 0, 0, 1, 0]), np.array([1, 2, 0, 2, 3]), np.array([1.0, 2, 3, 4, 5]))
    public, lists = recent_lists(rows, 3, 3, recent=2)
    assert public.tolist() == [2, 0, 1]
    assert [slots.tolist() for slots, _ in lists] == [[0, 1], [0], []]
    assert [stars.tolist() for _, stars in lists] == [[2.0, 3.0], [4.0], []]


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1000)])
def test_a_budget_that_is_none_is_refused(epsilon: Fraction) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        noise_once_stars(population(), epsilon, scope=ITEMS)
