"""Means with intervals, and the lists of a deployment by keys of users and items."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.evaluation.ranking import (
    Mean,
    RankingTask,
    baselines,
    difference,
    gains_by_key,
    lists_of,
    ranking_task,
    user_gains,
)
from tests.naive import list_quality as naive
from tests.stream_app.evaluation.ranking.test_task import rows

GAINS = st.lists(st.floats(0, 1) | st.just(math.nan), min_size=2, max_size=20)


@pytest.fixture(scope="module")
def task() -> RankingTask:
    users, items, ratings = rows(seed=3)
    return ranking_task(users, items, ratings, ratings >= 4)


@given(GAINS)
def test_the_interval_is_of_the_users_with_a_list(gains: list[float]) -> None:
    found = Mean.over(np.array(gains))
    known = [gain for gain in gains if not math.isnan(gain)]
    assert found.users == len(known)
    if known:
        assert found.value == pytest.approx(statistics.fmean(known))
    if len(known) > 1:
        half_width = 1.96 * statistics.stdev(known) / len(known) ** 0.5
        assert found.half_width == pytest.approx(half_width, abs=1e-9)
    else:
        assert math.isnan(found.error)


def test_the_interval_holds_the_true_mean_in_95_of_100_samples() -> None:
    """Standard deviation of the share over 2,000 samples: .005; the bounds are 5 of them."""
    samples = np.random.default_rng(2).random((2000, 100))
    inside = [abs(found.value - 0.5) < found.half_width for found in map(Mean.over, samples)]
    assert 0.925 < np.mean(inside) < 0.975


def test_a_difference_is_of_the_same_users() -> None:
    first, second = np.array([0.1, 0.5, math.nan, 0.9]), np.array([0.0, 0.4, 0.3, 0.8])
    found = difference(first, second)
    assert (round(found.value, 9), round(found.error, 9), found.users) == (0.1, 0.0, 3)
    assert Mean.over(first).error > 0.2


def test_gains_are_those_of_each_user(task: RankingTask) -> None:
    lists = lists_of(task, baselines.popular(task), 10)
    relevant = [task.relevant.of_user(user)[0].tolist() for user in range(len(task.tested))]
    expected = [
        naive.ndcg([own], [wanted]) for own, wanted in zip(lists.tolist(), relevant, strict=True)
    ]
    assert user_gains(task, lists) == pytest.approx(expected)


def test_lists_of_a_deployment_have_the_gains_of_their_places(task: RankingTask) -> None:
    lists = lists_of(task, baselines.popular(task), 3)
    keys = task.users[task.tested].tolist()
    given = {key: task.items[row].tolist() for key, row in zip(keys[3:], lists[3:], strict=True)}
    given[keys[4]] = given[keys[4]][:2]
    given[keys[5]] = [2**63, *given[keys[5]]]
    lists[4, 2:] = -1
    lists[5] = [-1, *lists[5, :-1]]
    found = gains_by_key(task, {**given, 2**40: [1]}, 3)
    assert np.isnan(found[:3]).all()
    assert found[3:] == pytest.approx(user_gains(task, lists)[3:])
