"""Predictions after *stars*: above the items' means with many people, equal for an equal seed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from stream_app.evaluation import EvaluationData, TrueRatings
from stream_app.evaluation.campaigns import DELTA, Budget
from stream_app.evaluation.campaigns.stars import evaluate_stars, population
from tests.stream_app.evaluation.campaigns.worlds import columns


def world(users: int) -> EvaluationData:
    by_user, by_item, stars = columns(users)
    truth = TrueRatings(stars.astype(np.float64), 1, 5)
    return EvaluationData(by_user.astype(np.uint64), by_item.astype(np.uint64), truth)


@pytest.mark.thorough
def test_many_people_predict_better_than_the_means_of_items():
    found = evaluate_stars(world(1200), Budget(Fraction(16), DELTA, "central"))
    assert found.rmse < found.rmse_baseline - 0.1
    assert (found.people, found.items) == (1200, 60)
    assert found.stage_bytes == 4 * 60 * 59 // 2  # the head is every item


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_figures():
    first, again, other = (
        evaluate_stars(world(150), Budget(Fraction(4), DELTA, "split"), seed=seed).rmse
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_nobody_contributes_what_is_tested():
    data = world(100)
    crowd = population(data, 48_000, 3)
    assert sum(map(len, crowd.own)) == len(crowd.learned) == 1200
    assert not set(crowd.learned.tolist()) & set(crowd.tested.tolist())
    for user in range(100):
        keys = crowd.scope[crowd.own[user].places]
        rows = crowd.learned[data.users[crowd.learned] == user]
        assert sorted(keys.tolist()) == sorted(data.items[rows].tolist())


def test_an_item_that_is_rated_again_counts_as_rated_last():
    users, items = np.zeros(40, np.uint64), np.arange(40, dtype=np.uint64) % 3
    stars = np.linspace(1, 5, 40)
    crowd = population(EvaluationData(users, items, TrueRatings(stars, 1, 5)), 48_000, 0)
    (own,) = crowd.own
    for place, value in zip(own.places, own.stars, strict=True):
        rows = crowd.learned[items[crowd.learned] == crowd.scope[place]]
        assert value == pytest.approx(stars[rows.max()])


def test_items_beyond_the_scope_are_predicted_too():
    crowd = population(world(100), 20, 0)
    assert len(crowd.scope) == 20
    assert (crowd.places == -1).any()
    assert max(int(own.places.max(initial=0)) for own in crowd.own) == 19


def test_few_ratings_are_refused():
    with pytest.raises(ValueError, match="at least 10"):
        evaluate_stars(
            EvaluationData(*np.zeros((2, 3), np.uint64), TrueRatings(np.ones(3), 1, 5)),
            Budget(Fraction(1), DELTA, "central"),
        )
