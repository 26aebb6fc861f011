"""`murmurec.evaluate_ranking` over splits and mechanisms, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from murmurec import evaluate_ranking
from murmurec.ranking import (
    RankingEvaluation,
    RankingOptions,
    device_lists,
    least_like,
    own_histories,
    server_lists,
)
from murmurec.ratings import columns_of
from producers.datasets import synthetic
from producers.datasets.load import Dataset
from producers.scale import Scale
from stream_app.evaluation.ranking import FORMS
from stream_app.evaluation.ranking.task import SPLITS

OTHERS = ("global", "user-time")
FAST = RankingOptions(factors=4, messages=("packed",))


@pytest.fixture(scope="module")
def ratings() -> Dataset:
    return synthetic.generate(5, users=150, items=60, ratings=2500).dataset


@pytest.mark.thorough
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(
    "mechanism",
    [
        *(pytest.param(m, marks=pytest.mark.nightly) for m in (None, "partition:5:2")),
        "rr:5:2",
        "cell:5:4",
    ],
)
def test_every_way_to_make_lists_has_its_figures(
    ratings: Dataset, split: str, mechanism: str | None
) -> None:
    steps: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        steps.append((done, total))

    options = RankingOptions(factors=4, scope=40 if mechanism == "cell:5:4" else None)
    result = evaluate_ranking(ratings, mechanism, split=split, options=options, progress=progress)
    assert (result.split, result.k) == (split, 10)
    assert result.scope == (options.scope or 0)
    assert steps[-1][0] == steps[-1][1]
    assert steps == sorted(steps)
    assert (result.rows[0].method, result.rows[0].where) == ("next", "device")
    sent = {row.messages for row in result.rows if row.where != "baseline"}
    assert sent == ({""} if result.scope else set(FORMS))
    assert {row.where for row in result.rows} == {"device", "server", "baseline"}
    for row in result.rows:
        figures = (row.ndcg, row.recall, row.hit_rate, row.coverage, row.overlap)
        assert all(0 <= figure <= 1 for figure in (*figures, row.popularity_share))
        assert row.ndcg_error > 0
        if row.method != "popular":
            assert row.above_popular == pytest.approx(row.ndcg - result.ndcg_popular)
    assert result.ndcg == result.rows[0].ndcg
    assert result.ndcg_popular > 0


@pytest.mark.parametrize("form", FORMS)
def test_every_rating_is_learned_once_on_the_day_that_its_message_says(
    ratings: Dataset, form: str
) -> None:
    run = RankingEvaluation(
        ratings, "rr:5:2", k=10, split="visit", model="hybrid", seed=0, options=FAST
    )
    list(run.learning(form))
    learned, replica = run.task.learned, run.server.replica
    assert run.server.learned == len(learned.items)
    counts = np.bincount(learned.items)
    assert replica.items.reports[replica.items.rows(run.task.items)].tolist() == counts.tolist()
    assert learned.days is not None
    newest = np.zeros(len(run.task.users), np.int64)
    np.maximum.at(newest, learned.users, learned.days)
    if form == "packed":
        newest[:] = newest.max()
    marks = replica.marks.arrays()
    order = np.searchsorted(run.task.users, marks["devices"][:, 0])
    assert (marks["days"] - 1).tolist() == newest[order].tolist()


def planted(people: int = 80) -> tuple[np.ndarray, ...]:
    """Return users, items, stars and times: each user rates the twenty items of one of five groups,
    six a day, and on the first day four others, which are not liked."""
    random = np.random.default_rng(8)
    rows = []
    for user in range(people):
        begins = random.random() * 50
        for place, item in enumerate(random.permutation(20).tolist()):
            when = 86_400 * (begins + place // 6) + 60 * place
            rows.append((user, user % 5 + 5 * item, 5, when))
        others = random.choice(np.arange(100)[np.arange(100) % 5 != user % 5], 4, replace=False)
        rows += [(user, item, 2, 86_400 * begins + n) for n, item in enumerate(others.tolist())]
    return tuple(np.array(column) for column in zip(*rows, strict=True))


@pytest.mark.parametrize(
    "split", ["visit", *(pytest.param(name, marks=pytest.mark.thorough) for name in OTHERS)]
)
def test_lists_find_planted_taste_in_every_form_of_messages(split: str) -> None:
    """Popularity finds a fifth of it; five standard errors of the difference are above it."""
    result = evaluate_ranking(planted(), "none:5:inf", split=split,
                              options=RankingOptions(factors=4))  # fmt: skip
    for form in FORMS:
        row = result.row(method="next", where="device", history="clean", messages=form)
        assert row.above_popular > 5 * row.above_popular_error > 0
    ease = result.row(method="EASE")
    assert ease.above_popular > 5 * ease.above_popular_error


@pytest.mark.parametrize("mechanism", ["rr:5:2", "cell:5:4"])
def test_no_list_holds_what_its_user_has_rated(ratings: Dataset, mechanism: str) -> None:
    """Where presence is protected the server does not know it, and the device leaves it out."""
    run = RankingEvaluation(
        ratings, mechanism, k=10, split="user-time", model="hybrid", seed=0, options=FAST
    )
    list(run.learning("daily"))
    task, own = run.task, own_histories(run.task, np.full(len(run.task.rows), 5.0), None)
    _, replies = server_lists(run.server, task, 10)
    for lists in (replies, device_lists(run.server, task, own, 10, most=1)):
        for user, found in enumerate(lists.tolist()):
            assert not set(found) & set(task.history.of_user(user)[0].tolist())
            assert found[0] >= 0


def test_a_cold_device_knows_its_newest_ratings_alone(ratings: Dataset) -> None:
    result = evaluate_ranking(ratings, None, options=FAST)
    none = result.row(where="device", history="clean, 0 ratings")
    assert none.ndcg == pytest.approx(result.ndcg_popular, abs=2 * none.ndcg_error)
    known = [row.history for row in result.rows if row.where == "device" and row.method == "next"]
    assert known == ["clean", *(f"clean, {n}" for n in ("10 ratings", "3 ratings", "1 rating",
                                                       "0 ratings"))]  # fmt: skip


def test_ratings_in_bins_from_below_zero_are_ranked(ratings: Dataset) -> None:
    """A rating lies beyond the centre of the first or the last bin."""
    luck = np.random.default_rng(1).uniform(-2, 2, len(ratings))
    values = np.clip(5 * (ratings.ratings - 3) + luck, -10, 10)
    scale = Scale(-10, 10, 4, binned=True)
    data = replace(ratings, ratings=values, levels=scale.classify(values)[0], scale=scale)
    assert least_like(None, data) == 2.0
    assert evaluate_ranking(data, "rr:5:2", options=FAST).ndcg > 0


@pytest.mark.parametrize(
    ("mechanism", "people", "absent"),
    [
        ("rr:5:2", 80, ""),
        ("rr:5:2", 40, "40 devices with a second visit: 50 are needed"),
        ("like:5:2", 80, "presence is protected: a later visit cannot be seen"),
    ],
)
def test_the_server_measures_its_lists_on_later_visits(
    mechanism: str, people: int, absent: str
) -> None:
    data = columns_of(planted(people), None)
    run = RankingEvaluation(
        data, mechanism, k=10, split="user-time", model="hybrid", seed=0, options=FAST
    )
    list(run.learning())
    standing = run.server.recommender.standing
    assert standing.absent == absent
    assert (standing.ndcg is None) == (standing.ndcg_popular is None) == bool(absent)


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
    result = evaluate_ranking(data, None, options=FAST)
    assert not result.in_time
    assert result.items == 60
    assert evaluate_ranking(ratings, None, options=FAST).in_time


def test_one_user_has_figures_without_an_overlap() -> None:
    data = ([1] * 20, list(range(20)), [1.0, 5.0] * 10, list(range(20)))
    with pytest.raises(ValueError, match="no user has learned ratings"):
        evaluate_ranking(data, None, options=FAST)
    users, items = [1] * 20 + [2] * 20, [*range(20), *range(19, -1, -1)]
    stars = [1.0, 5.0] * 10 + [1.0] * 20
    result = evaluate_ranking((users, items, stars, range(40)), None, options=FAST)
    assert result.users == 1
    assert math.isnan(result.rows[0].overlap)
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
        ({"options": RankingOptions(messages=("weekly",))}, "messages weekly: choose single"),
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
        evaluate_ranking(ratings, None, options=replace(FAST, like=like)).users
        for like in (2.0, 5.0)
    ]
    assert users[0] > users[1] > 0
