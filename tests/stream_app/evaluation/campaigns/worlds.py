"""A small world of tastes: users like the items of one of three groups."""

from __future__ import annotations

import numpy as np

from stream_app.evaluation.ranking import RankingTask, ranking_task


def columns(users: int, items: int = 60, each: int = 15, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Return users, items and stars 1 .. 5 of `each` ratings a user, all in a random order."""
    random = np.random.default_rng(seed)
    by_user, by_item, stars = [], [], []
    for user in range(users):
        liking = np.arange(items) % 3 == user % 3
        weight = np.where(liking, 5.0, 1.0) / (10 + np.arange(items))
        chosen = random.choice(items, each, replace=False, p=weight / weight.sum())
        by_user += [user] * each
        by_item += chosen.tolist()
        stars += np.where(liking[chosen], 5, random.integers(1, 4, each)).tolist()
    order = random.permutation(len(stars))
    return tuple(np.array(column)[order] for column in (by_user, by_item, stars))


def lists_task(users: int) -> RankingTask:
    by_user, by_item, stars = columns(users)
    keys = by_user.astype(np.uint64), by_item.astype(np.uint64)
    return ranking_task(*keys, stars.astype(np.float64), stars >= 4)
