"""X-Map on a generated world: who is cold, what is measured, what an epsilon of a reply covers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from research.xmap.measured import compare, errors
from research.xmap.methods import Prediction
from research.xmap.task import cold_task, two_domains
from research.xmap.x_map import DELTA, Corrected, XMapOptions
from tests.fixtures.two_domains import world

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def task():
    return cold_task(world(), seed=1)


@pytest.fixture(scope="module")
def measured(task):
    return {(each.method, each.epsilon): each for each in compare(task, (1.0, 16.0, math.inf))}


def test_nothing_of_a_cold_user_s_target_domain_is_learned(task):
    assert len(task.cold) == len(task.data.straddlers) // 5
    for cold in task.cold:
        assert not task.target.present[cold.user].any()
        assert task.source.present[cold.user].sum() == len(cold.items) > 0
        assert len(cold.held) > 0
    held = sum(len(each.held) for each in task.cold)
    assert len(task.learned) + held == len(task.data.users)


def test_a_film_stays_a_film(task):
    names = task.data.item_keys
    assert all(name.startswith("film") for name in names[: task.data.sources])
    assert all(name.startswith("book") for name in names[task.data.sources :])


@pytest.mark.thorough
@pytest.mark.nightly
def test_ratings_of_films_predict_ratings_of_books(measured):
    mean, clean = measured["item mean", None], measured["X-Map clean", None]
    assert clean.mae < mean.mae - 0.1
    assert clean.ndcg > measured["popularity", None].ndcg
    # Tastes, not the offset of a person alone:
    assert measured["X-Map by agreement", None].mae < measured["user's offset", None].mae - 0.02


@pytest.mark.thorough
def test_the_corrected_form_without_noise_is_better_than_with_much(measured):
    free = next(each for each in measured.values() if each.method == "X-Map corrected"
                and each.epsilon is None)  # fmt: skip
    noisy = measured["X-Map corrected", 1.0]
    assert free.ndcg > noisy.ndcg
    assert noisy.mae < measured["item mean", None].mae  # the user's own offset needs no noise


def test_every_method_predicts_stars_and_lists(measured):
    assert len(measured) == 9
    for each in measured.values():
        assert 0 < each.mae < 2
        assert 0 <= each.ndcg <= 1


def test_draws_of_one_seed_are_equal_and_of_two_are_not(task):
    some = replace(task, cold=task.cold[:5])
    corrected = Corrected(some, XMapOptions().damping)
    runs = [corrected.predict(XMapOptions(seed=seed), 4.0) for seed in (1, 1, 2)]
    scores = [np.concatenate([each.scores for each in run]) for run in runs]
    assert scores[0].tolist() == scores[1].tolist() != scores[2].tolist()


def test_a_whole_reply_costs_what_is_stated():
    options = XMapOptions().whole(16.0, 20)
    assert 20 * options.epsilon + 20 * options.epsilon_neighbours == pytest.approx(16)
    assert DELTA * 20 < 1e-4


@pytest.mark.parametrize("epsilon", [0.0, math.inf])
def test_the_ends_of_epsilon_are_drawn(task, epsilon):
    some = replace(task, cold=task.cold[:5])
    corrected = Corrected(some, XMapOptions().damping)
    found = corrected.predict(XMapOptions(epsilon=epsilon, epsilon_neighbours=epsilon))
    assert all(np.isfinite(each.ratings).all() for each in found)
    assert np.isfinite(errors(some, found)[0])


@pytest.mark.parametrize("epsilon", [-1.0, math.nan])
def test_an_epsilon_that_is_none_is_refused(task, epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        Corrected(task, XMapOptions().damping).predict(XMapOptions(), epsilon)


def test_more_neighbours_than_candidates_are_all_of_them(task):
    some = replace(task, cold=task.cold[:3])
    corrected = Corrected(some, XMapOptions().damping)
    found = corrected.predict(XMapOptions(neighbours=500))
    assert np.isfinite(errors(some, found)[0])


def test_the_error_is_the_mean_over_held_out_ratings(task):
    exact = []
    for cold in task.cold:
        ratings = np.full(task.data.targets, 3.0)
        ratings[cold.held] = cold.truth + 0.25
        scores = np.zeros(task.data.targets)
        scores[cold.held] = cold.truth
        exact.append(Prediction(ratings, scores))
    assert errors(task, exact) == pytest.approx((0.25, 1.0))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"in_target": [True] * 5}, "item a is in both|0 source and"),
        ({"items": ["a"] * 5}, "item a is in both domains"),
        ({"stars": [0, 1, 2, 3, 4]}, "1 to 5"),
        ({"stars": [1, 1, 2, 3, math.nan]}, "1 to 5"),
        ({"users": [1]}, "one length"),
        ({}, "1 users rated in both domains: 10"),
    ],
)
def test_domains_that_cannot_be_measured_are_refused_in_a_sentence(change, words):
    columns = {
        "users": [1, 1, 2, 3, 4],
        "items": ["a", "b", "c", "d", "a"],
        "stars": [1, 2, 3, 4, 5],
        "in_target": [False, True, True, True, False],
    }
    with pytest.raises(ValueError, match=words):
        two_domains(**(columns | change))


def test_a_share_of_cold_users_out_of_range_is_refused():
    with pytest.raises(ValueError, match="share 1"):
        cold_task(world(), share=1)
