"""Baselines, each compared with the obvious version on a small file; lists and their figures."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.evaluation.ranking import (
    RankingTask,
    Way,
    baselines,
    ranking_task,
    row_of,
    user_gains,
)
from stream_app.evaluation.ranking.task import lists_of
from tests.stream_app.evaluation.ranking.test_task import rows


@pytest.fixture(scope="module")
def task() -> RankingTask:
    users, items, ratings = rows(seed=3)
    return ranking_task(users, items, ratings, ratings >= 4)


def cells(task: RankingTask, *, liked: bool) -> np.ndarray:
    found = np.zeros((len(task.users), len(task.items)))
    learned = task.learned
    found[learned.users, learned.items] = learned.liked | (not liked)
    return found


def all_scores(task: RankingTask, scores: baselines.Scorer) -> np.ndarray:
    return np.array(scores(0, len(task.tested)))


def test_popular_counts_the_users_of_an_item(task: RankingTask) -> None:
    assert (all_scores(task, baselines.popular(task)) == cells(task, liked=False).sum(0)).all()


def test_recent_ratings_count_most(task: RankingTask) -> None:
    items = task.learned.items.tolist()
    expected = [0.0] * len(task.items)
    for age, item in enumerate(reversed(items)):
        expected[item] += 0.5 ** (age / (0.035 * len(items)))
    assert all_scores(task, baselines.recently_popular(task))[3] == pytest.approx(expected)


def test_ease_solves_its_constrained_ridge_regression(task: RankingTask) -> None:
    """Each column: regress an item on all others, with the ridge (Steck 2019, equation 3)."""
    X = cells(task, liked=True)
    ridge, n = 0.2 * len(task.users), X.shape[1]
    weights = np.zeros((n, n))
    for item in range(n):
        others = [j for j in range(n) if j != item]
        A = X[:, others]
        weights[others, item] = np.linalg.solve(A.T @ A + ridge * np.eye(n - 1), A.T @ X[:, item])
    found = all_scores(task, baselines.ease(task))
    np.testing.assert_allclose(found, X[task.tested] @ weights, atol=1e-4)


def test_an_item_outside_the_head_follows_by_popularity(
    task: RankingTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baselines, "HEAD", 5)
    counts = cells(task, liked=False).sum(0)
    head = set(np.argsort(-counts, kind="stable")[:5].tolist())
    for lists in lists_of(task, baselines.ease(task), len(task.items)).tolist():
        tail = [item for item in lists if item >= 0 and item not in head]
        assert tail == sorted(tail, key=lambda item: -counts[item])


@pytest.mark.parametrize("k", [1, 10, 25])
def test_a_list_holds_the_best_items_that_the_user_has_not_rated(task: RankingTask, k: int) -> None:
    scores = np.random.default_rng(1).integers(0, 6, (len(task.tested), len(task.items))) * 1.0
    scores[:, 4] = -np.inf
    lists = lists_of(task, lambda first, last: scores[first:last], k)
    for user, found in enumerate(lists.tolist()):
        seen = {*task.history.of_user(user)[0].tolist(), 4}
        wanted = [item for item in range(len(task.items)) if item not in seen]
        wanted.sort(key=lambda item: -scores[user, item])
        assert [item for item in found if item >= 0] == wanted[:k]


def test_the_row_of_a_perfect_list_is_perfect(task: RankingTask) -> None:
    relevant = task.relevant.dense(0, len(task.tested), len(task.items))
    best = lists_of(task, lambda first, last: relevant[first:last] * 1.0, 10)
    row = row_of(task, Way("oracle", "baseline", "clean", best))
    assert (row.ndcg, row.hit_rate) == (1.0, 1.0)
    assert (row.method, row.ndcg_error) == ("oracle", 0.0)
    popular = user_gains(task, lists_of(task, baselines.popular(task), 10))
    above = row_of(task, Way("oracle", "baseline", "clean", best), popular)
    assert above.above_popular == pytest.approx(1 - popular.mean())
    assert above.above_popular_error == pytest.approx(popular.std(ddof=1) / len(popular) ** 0.5)
    worst = lists_of(task, lambda first, last: relevant[first:last] * -1.0, 1)
    assert row_of(task, Way("worst", "baseline", "clean", worst)).hit_rate == 0.0
