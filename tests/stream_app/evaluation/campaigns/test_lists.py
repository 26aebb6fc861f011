"""Lists after *together*: better than popularity with many people, the prior with few."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from stream_app.campaigns.features import features_of
from stream_app.campaigns.planning import Wanted, stages
from stream_app.evaluation.campaigns import DELTA, Budget, CampaignLists, ListOptions, noisy_sum
from stream_app.evaluation.campaigns.campaign_lists import evaluate_lists
from stream_app.evaluation.ranking import RankingTask
from stream_app.privacy.randomness import SeededSource
from tests.stream_app.evaluation.campaigns.worlds import lists_task

(STAGE,) = stages(Fraction(4), DELTA, [Wanted("together", 6, Fraction(1))], bound=100)


def budget(epsilon: int | Fraction, mode: str = "central") -> Budget:
    return Budget(Fraction(epsilon), DELTA, mode)


def measured(task: RankingTask, spent: Budget, scope: int, **others: Any) -> CampaignLists:
    options = ListOptions(scope=scope)
    return evaluate_lists(task, spent, options, stars=task.learned.ratings, **others)


def genres(keys: np.ndarray) -> np.ndarray:
    """Return features in which the three tastes are genres."""
    return features_of([(("abc"[int(key) % 3],), None) for key in keys])


def test_many_people_have_better_lists_than_popularity():
    found = measured(lists_task(1500), budget(8), scope=45)
    assert found.directions >= 3
    assert found.ndcg > 1.2 * found.ndcg_popular
    assert (found.people, found.contribution_bytes) == (1500, 4 * 45 * 46 // 2)
    assert [(row.method, row.history) for row in found.rows] == [
        ("together", "clean, by recency"),
        ("together", "clean"),
        ("prior", "clean, by recency"),
        ("prior", "clean"),
        ("popular", "none"),
    ]
    assert (found.ndcg_prior, found.meta) == (found.rows[2].ndcg, False)


def test_few_people_have_the_order_of_the_scope():
    task = lists_task(40)
    found = measured(task, budget(Fraction(1, 2)), scope=len(task.items))
    assert found.directions < 3
    assert found.ndcg == found.ndcg_prior == found.ndcg_popular


def test_genres_make_better_lists_than_popularity_at_no_cost():
    found = measured(lists_task(600), budget(Fraction(1, 4)), scope=45, features=genres)
    assert found.directions < 3
    assert found.ndcg == found.ndcg_prior > 1.2 * found.ndcg_popular
    assert found.meta


def test_genres_beside_links_are_no_worse_than_either():
    task = lists_task(1500)
    alone, both = (measured(task, budget(4), scope=45, features=f) for f in (None, genres))
    assert both.ndcg > max(alone.ndcg, both.ndcg_prior)


def test_the_same_seed_gives_the_same_figures_and_another_seed_other_noise():
    task = lists_task(300)
    first, again, other = (
        measured(task, budget(8, "split"), scope=30, seed=seed).rows for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def sent(*rows: list[int]) -> list[np.ndarray]:
    return [np.array(row, np.int32) for row in rows]


def test_a_sum_depends_on_no_order():
    contributions = sent([1, 2, 3, 0, 0, 0], [-50, 60, 0, 0, 0, 9], [0, 0, 0, 0, 0, 100])
    forward = noisy_sum(contributions, STAGE, 1, SeededSource(5))
    assert np.array_equal(forward, noisy_sum(contributions[::-1], STAGE, 1, SeededSource(5)))


def test_a_person_of_zeros_changes_nothing():
    contributions = sent([1, 2, 3, 0, 0, 0])
    without = noisy_sum(contributions, STAGE, 1, SeededSource(5))
    assert np.array_equal(
        without, noisy_sum([*contributions, *sent([0] * 6)], STAGE, 1, SeededSource(5))
    )


def test_two_parties_add_twice_the_variance():
    """Standard deviations of 60,000 draws, 5 % apart with a chance below 1e-6 a run of either."""
    (stage,) = stages(Fraction(4), DELTA, [Wanted("together", 40_000, Fraction(1))], bound=100)
    for parties in (1, 2):
        noise = noisy_sum([], stage, parties, SeededSource(7))
        assert noise.var() == pytest.approx(parties * stage.variance, rel=0.05)


@pytest.mark.parametrize("wrong", [[101, 0, 0, 0, 0, 0], [80, 80, 0, 0, 0, 0], [1, 2, 3]])
def test_a_contribution_beyond_its_bound_or_size_is_refused(wrong):
    with pytest.raises(ValueError, match="outside its size 6 or bound 100"):
        noisy_sum(sent(wrong), STAGE, 1, SeededSource(1))
