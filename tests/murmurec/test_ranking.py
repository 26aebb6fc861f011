"""`murmurec.evaluate_ranking` over splits and mechanisms, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from murmurec import evaluate_ranking
from murmurec.ranking import RankingEvaluation, RankingOptions
from producers.datasets import synthetic
from producers.datasets.load import Dataset
from stream_app.ranking.online_choice import METHODS

FAST = RankingOptions(factors=4)


@pytest.fixture(scope="module")
def ratings() -> Dataset:
    return synthetic.generate(5, users=150, items=60, ratings=2500).dataset


@pytest.mark.thorough
@pytest.mark.parametrize("split", ["user-time", "last", "global"])
@pytest.mark.parametrize("mechanism", [None, "rr:5:2", "partition:5:2", "cell:5:4"])
def test_every_way_to_make_lists_has_its_figures(
    ratings: Dataset, split: str, mechanism: str | None
) -> None:
    steps: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        steps.append((done, total))

    options = RankingOptions(factors=4, scope=40 if mechanism == "cell:5:4" else None)
    result = evaluate_ranking(
        ratings, mechanism, split=split, model="dense", options=options, progress=progress
    )
    assert (result.split, result.k, result.items) == (split, 10, 60)
    assert result.scope == (options.scope or 0)
    assert steps[-1][0] == steps[-1][1]
    assert steps == sorted(steps)
    assert result.rows[0].where == "device"
    assert {row.where for row in result.rows} == {"device", "server", "baseline"}
    for row in result.rows:
        figures = (row.ndcg, row.recall, row.hit_rate, row.coverage, row.overlap)
        assert all(0 <= figure <= 1 for figure in (*figures, row.popularity_share))
    best = result.rows[0]
    assert (result.method, result.where, result.ndcg) == (best.method, best.where, best.ndcg)
    popular = next(row for row in result.rows if (row.method, row.where) == ("popular", "baseline"))
    assert result.ndcg_popular == popular.ndcg > 0


@pytest.mark.thorough
@pytest.mark.parametrize(("mechanism", "scope"), [("rr:5:2", None), ("like:5:2", 40)])
def test_lists_are_measured_on_the_stream(
    ratings: Dataset, mechanism: str, scope: int | None
) -> None:
    options = RankingOptions(factors=4, scope=scope)
    run = RankingEvaluation(
        ratings, mechanism, k=10, split="user-time", model="dense", seed=0, options=options
    )
    list(run.learning())
    assert run.server.choices[0].events > 20
    assert set(run.server.recommender.standing.ndcg) == set(METHODS)


def test_the_same_seed_gives_the_same_figures(ratings: Dataset) -> None:
    found = {evaluate_ranking(ratings, "rr:5:1", options=FAST, seed=s).rows for s in (1, 1, 2)}
    assert len(found) == 2


def test_data_without_times_are_taken_in_a_random_order(ratings: Dataset) -> None:
    """The order of a file may be anything: sorted by item, the last fifth would be new items."""
    by_item = np.argsort(ratings.items, kind="stable")
    data = replace(
        ratings,
        users=ratings.users[by_item],
        items=ratings.items[by_item],
        ratings=ratings.ratings[by_item],
        levels=ratings.levels[by_item],
        timestamps=None,
    )
    result = evaluate_ranking(data, None, model="dense", options=FAST)
    assert not result.in_time
    assert result.items == 60
    assert evaluate_ranking(ratings, None, model="dense", options=FAST).in_time


def test_one_user_has_figures_without_an_overlap() -> None:
    data = ([1] * 20, list(range(20)), [1.0, 5.0] * 10, list(range(20)))
    with pytest.raises(ValueError, match="no user has learned ratings"):
        evaluate_ranking(data, None, options=FAST)
    users, items = [1] * 20 + [2] * 20, [*range(20), *range(19, -1, -1)]
    stars = [1.0, 5.0] * 10 + [1.0] * 20
    result = evaluate_ranking((users, items, stars, range(40)), None, options=FAST)
    assert result.users == 1
    assert math.isnan(result.overlap)
    assert 0 <= result.ndcg <= 1


def test_ratings_that_are_all_equal_are_ranked(ratings: Dataset) -> None:
    same = replace(
        ratings, ratings=np.full(len(ratings), 5.0), levels=np.full(len(ratings), 4, np.uint8)
    )
    assert evaluate_ranking(same, "rr:5:1", options=FAST).ndcg > 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"k": 0}, "k 0: 60 items can be ranked; give 1 to 60"),
        ({"k": 61}, "k 61: 60 items can be ranked; give 1 to 60"),
        ({"split": "random"}, "split random: choose"),
        ({"mechanism": "rr:10:2"}, "the ratings have 5 levels"),
        ({"mechanism": "cell:5:2", "options": RankingOptions(scope=0)}, "scope 0"),
        ({"mechanism": "cell:5:2", "options": RankingOptions(scope=61)}, "scope 61"),
        ({"options": RankingOptions(like=5.5)}, "like 5.5: the ratings are on the scale"),
        ({"model": "deep"}, "model 'deep'"),
        ({"seed": -1}, "seed -1"),
    ],
)
def test_bad_arguments_are_refused(
    ratings: Dataset, arguments: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        evaluate_ranking(ratings, **arguments)


def test_a_catalogue_of_one_item_leaves_nothing_to_test_with() -> None:
    data = (list(range(20)), [7] * 20, [1.0, 5.0] * 10)
    with pytest.raises(ValueError, match="no user has learned ratings"):
        evaluate_ranking(data, None)


def test_a_higher_threshold_leaves_fewer_likes(ratings: Dataset) -> None:
    users = [
        evaluate_ranking(ratings, None, options=RankingOptions(factors=4, like=like)).users
        for like in (2.0, 5.0)
    ]
    assert users[0] > users[1] > 0
