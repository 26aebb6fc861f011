"""Lists by cosine and Slope One, compared with the formulas on a small file."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.evaluation.ranking import RankingTask, co_rated, co_rated_lists, ranking_task
from tests.naive import similarity as naive
from tests.stream_app.evaluation.ranking.test_task import rows


@pytest.fixture(scope="module")
def task() -> RankingTask:
    users, items, ratings = rows(seed=3)
    return ranking_task(users, items, ratings, ratings >= 4)


def profiles(task: RankingTask) -> list[naive.Profile]:
    found: list[naive.Profile] = [{} for _ in task.users]
    learned = task.learned
    for user, item, rating in zip(learned.users, learned.items, learned.ratings, strict=True):
        found[user][int(item)] = float(rating)
    return found


def expected_score(name: str, everyone: list[naive.Profile], own: naive.Profile, j: int) -> float:
    if name == "cosine":
        return naive.cosine_score(everyone, own, j, 0.0, co_rated.LEAST_PROFILE)
    if name == "damped cosine":
        return naive.cosine_score(everyone, own, j, co_rated.DAMPING, co_rated.LEAST_PROFILE)
    if name == "slope-one":
        return naive.slope_one(everyone, own, j, None, None)
    terms = [
        r + naive.deviation_towards_means(everyone, j, k, co_rated.DAMPING) for k, r in own.items()
    ]
    return 3 + sum(min(max(t, 1), 5) - 3 for t in terms) / max(len(own), co_rated.LEAST_PROFILE)


def test_each_list_is_of_the_best_scores_of_unseen_items(task: RankingTask) -> None:
    everyone = profiles(task)
    ways = co_rated_lists(task, task.learned.ratings, 3)
    assert [way.method for way in ways] == [
        *("cosine", "damped cosine", "slope-one", "damped slope-one")
    ]
    for way in ways:
        for place, user in enumerate(task.tested[:6]):
            own = everyone[user]
            unseen = [j for j in range(len(task.items)) if j not in own]
            scores = {j: expected_score(way.method, everyone, own, j) for j in unseen}
            listed = way.lists[place]
            assert not set(listed) & set(own)
            assert len(set(listed)) == 3
            best = sorted(scores.values(), reverse=True)[:3]
            assert [scores[j] for j in listed] == pytest.approx(best, abs=1e-5)


def test_by_recency_the_newest_items_of_the_history_count_most(task: RankingTask) -> None:
    everyone = profiles(task)
    *_, way = co_rated_lists(task, task.learned.ratings, 3, in_order=True)
    assert (way.method, way.history) == ("damped cosine", "clean, by recency")
    for place in range(6):
        history, _ = task.history.of_user(place)
        newest_first = history[::-1].tolist()
        scores = {
            j: sum(
                np.exp(-age / 5) * naive.cosine(everyone, j, k, co_rated.DAMPING)
                for age, k in enumerate(newest_first)
            )
            for j in range(len(task.items))
            if j not in newest_first
        }
        best = sorted(scores.values(), reverse=True)[:3]
        assert [scores[j] for j in way.lists[place]] == pytest.approx(best, abs=1e-5)


def test_items_outside_the_head_follow_by_popularity(
    task: RankingTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stream_app.evaluation.ranking.baselines.HEAD", 2)
    counts = np.bincount(task.learned.items, minlength=len(task.items))
    head = np.argsort(-counts, kind="stable")[:2]
    everyone = profiles(task)
    for way in co_rated_lists(task, task.learned.ratings, len(task.items)):
        for place, user in enumerate(task.tested[:6]):
            listed = [j for j in way.lists[place] if j >= 0]
            others = [j for j in listed if j not in head]
            assert others == sorted(others, key=lambda j: (-counts[j], j))
            assert set(listed) == set(range(len(task.items))) - set(everyone[user])
