"""The generated world: its odds predict best, its seed repeats it, it looks like ratings."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from numpy.typing import NDArray

from producers.datasets.synthetic import GENRES, World, generate, probabilities
from producers.datasets.synthetic.titles import TITLES
from producers.scale import Scale
from tests.fixtures.worlds import Lists, demo_world, shape

MOVIELENS = {"global": 1.18, "visit": 1.22}  # EASE / popular: tests/benchmarks/worlds.py


@pytest.fixture(scope="module")
def world() -> World:
    return generate(7, users=800, items=600, ratings=60_000)


def error(world: World, predicted: NDArray[np.float64]) -> float:
    """Return the RMSE of predictions."""
    return float(np.sqrt(np.square(world.dataset.ratings - predicted).mean()))


def test_the_best_prediction_is_that_of_the_planted_probabilities(world: World) -> None:
    scores = np.array([-3.0, 1.0, 2.2, 3.5, 4.9, 9.0])
    odds = probabilities(scores)
    np.testing.assert_allclose(odds.sum(axis=1), 1, atol=1e-15)
    assert (odds >= 0).all()
    for score, row in zip(scores.tolist(), odds, strict=True):
        below = [1 / (1 + math.exp(-(k + 0.5 - score) / 0.45)) for k in range(1, 5)]
        np.testing.assert_allclose(np.cumsum(row)[:4], below, rtol=1e-12)
    # Nothing that is better than the conditional mean: shifted or shrunk predictions are worse.
    for worse in (world.expected + 0.2, world.expected - 0.2, 3 + 0.7 * (world.expected - 3)):
        assert error(world, worse) > error(world, world.expected) + 0.01


def test_there_is_something_to_learn(world: World) -> None:
    ratings, best = world.dataset.ratings, error(world, world.expected)
    assert best < 0.8 * ratings.std()
    sums = np.bincount(world.dataset.items, ratings)[1:]
    counts = np.bincount(world.dataset.items)[1:]
    by_item = sums[world.dataset.items - 1] / counts[world.dataset.items - 1]
    assert best + 0.1 < (ratings - by_item).std() < ratings.std()


def test_it_looks_like_ratings_of_a_population(world: World) -> None:
    data = world.dataset
    assert data.scale == Scale(1, 5, 1)
    assert set(data.ratings.tolist()) == {1, 2, 3, 4, 5}
    assert (data.levels == data.ratings - 1).all()
    assert abs(len(data) - 60_000) < 600
    assert len(np.unique(data.users)) == 800
    assert data.items.min() >= 1
    assert data.items.max() <= 600
    assert data.timestamps is not None
    assert (np.diff(data.timestamps) >= 0).all()
    assert data.in_time_order() is data
    cells = data.users * 1000 + data.items
    assert len(np.unique(cells)) == len(cells)
    popular = np.sort(np.bincount(data.items))[::-1]
    assert popular[:60].sum() > 0.25 * len(
        data
    )  # a tenth of the items has a quarter of the ratings
    # Sessions: most gaps of one user are below five minutes, but a user comes back on other days.
    gaps = np.concatenate([np.diff(data.timestamps[data.users == user]) for user in range(1, 30)])
    assert (gaps < 300).mean() > 0.7
    assert (gaps > 86_400).mean() > 0.005


def test_titles_are_invented_different_and_end_with_the_year(world: World) -> None:
    described = world.dataset.described or {}
    assert sorted(described) == list(range(1, 601))  # type: ignore[type-var]
    assert len({found.title for found in described.values()}) == 600
    for found, genre in zip(described.values(), world.genres.tolist(), strict=True):
        assert found.genres == (GENRES[genre],)
        assert found.title.endswith(f" ({found.year})")
        assert found.year is not None
        assert 1930 <= found.year <= 2024
    assert "generated" in world.dataset.name


def test_a_title_tells_its_genre() -> None:
    """No word occurs in titles of two genres, in a world that needs every title there is."""
    most = TITLES * len(GENRES)
    titled = generate(1, users=1, items=most, ratings=most // 2).dataset.described or {}
    assert len({found.title for found in titled.values()}) == most
    genres: dict[str, set[str]] = {}
    for found in titled.values():
        for word in set(re.findall(r"[^\W\d]{4,}", found.title.lower())) - {"from", "over"}:
            genres.setdefault(word, set()).update(found.genres)
    assert {word: found for word, found in genres.items() if len(found) > 1} == {}


def test_a_user_rates_the_genres_it_leans_to_and_rates_them_higher(world: World) -> None:
    assert set(np.unique(world.leanings).tolist()) == {0.0, 0.5, 0.7, 1.0}
    assert set((world.leanings > 0).sum(axis=1).tolist()) == {1, 2, 3}
    users, items = world.dataset.users - 1, world.dataset.items - 1
    leaning = world.leanings[users, world.genres[items]]
    everywhere = world.leanings[:, world.genres].mean()
    assert leaning.mean() > 2 * everywhere
    of_favourite, of_others = (
        world.dataset.ratings[leaning == level].mean() for level in (1.0, 0.0)
    )
    assert of_favourite > of_others + 0.2


def test_a_user_rates_most_on_the_first_day_and_few_come_back(world: World) -> None:
    found = shape(world.dataset)
    assert 0.5 < found["users of one day, share"] < 0.68
    assert 0.55 < found["ratings on a user's first day, share"] < 0.8
    assert found["days a user, 50 %"] == 1
    assert found["days a user, 99 %"] > 20
    assert 1.3 < found["ratings a user, mean"] / found["ratings a user, 50 %"] < 2.2


def test_a_few_items_have_most_ratings_as_in_movielens(world: World) -> None:
    found = shape(world.dataset)
    assert 0.03 < found["ratings of the top 1 % of the items, share"] < 0.1
    assert 0.3 < found["ratings of the top 10 % of the items, share"] < 0.5
    assert 0.8 < found["ratings of the top 50 % of the items, share"] < 0.95


@pytest.mark.thorough
@pytest.mark.parametrize("split", MOVIELENS)
def test_lists_beside_popular_ones_are_worth_what_they_are_on_movielens(split: str) -> None:
    world = demo_world()
    lists = Lists.of(world.dataset, split, devices=False)
    worth, liked = lists.worth(), lists.liked_genres(world)
    assert abs(worth["EASE"] / worth["popular"] / MOVIELENS[split] - 1) < 0.15
    assert liked["EASE"] > 2 * liked["popular"]


def test_a_seed_repeats_its_world_and_another_makes_another() -> None:
    small = {"users": 20, "items": 30, "ratings": 200}
    first, again, other = (generate(seed, **small) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.dataset.ratings, again.dataset.ratings)
    np.testing.assert_array_equal(first.dataset.timestamps, again.dataset.timestamps)
    assert first.dataset.ratings.tolist() != other.dataset.ratings.tolist()


@pytest.mark.parametrize(
    "wrong",
    [{"users": 0}, {"items": TITLES * 12 + 1}, {"factors": 0}, {"ratings": 1}, {"ratings": 10**9}],
    ids=str,
)
def test_a_world_that_cannot_be_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"world|ratings"):
        generate(1, **wrong)
