"""Chapter 4 of Balu 2016: the trainer, the protocol and the shape of its figures."""

from __future__ import annotations

import math

import numpy as np
import pytest

from murmurec.ratings import item_keys, user_keys
from producers.datasets.synthetic import generate
from research.kernels.hashed_epochs import place_cells
from research.papers import balu_2016_factorization as chapter
from research.papers.figure import StarRatings
from research.trainers.epoch_model import EpochModel, Method, Part, Steps
from stream_app.kernels.machine.scalars import hash64

pytestmark = pytest.mark.nightly

METHODS = [Method("regular"), Method("sketch", 4), Method("hashing", 1)]


def world(ratings: int = 6000) -> StarRatings:
    found = generate(3, users=150, items=100, ratings=ratings).dataset
    return StarRatings(user_keys(found.users), item_keys(found.items), found.ratings)


def one(stars: float) -> Part:
    return Part(np.array([1]), np.array([2]), np.array([stars]))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_step_goes_down_the_gradient(method):
    """e falls by eta (|p|^2 + |q|^2 + 2) e of a small step, where nothing is shared."""
    first = EpochModel(method, 4, 5, 8, seed=1)
    steps = Steps(1e-4, 0.0)
    first.learn(Part(np.array([0]), np.array([0]), np.array([3.0])), steps, 0)
    before = first.predict(one(0))[0]
    first.learn(one(5.0), steps, 1)
    after = first.predict(one(0))[0]
    assert 1.9e-4 < (after - before) / (5.0 - before) * 1.05 < 4e-4


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_equal_seeds_are_equal_models_and_learning_lowers_the_error(method):
    fold = chapter.fold_of(world(), 0)
    runs = [
        chapter.errors_by_epoch(fold, method, Steps(0.02, 0.02, 8), fold.training, 8, seed)
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1] != runs[2]
    assert runs[0][-1] < runs[0][0]


def test_a_sketch_that_is_wide_enough_is_as_good_as_rows():
    fold = chapter.fold_of(world(), 0)
    steps = Steps(0.05, 0.0, 40)
    wide, rows, narrow = (
        chapter.last_error(fold, method, steps, fold.training, 8)[0]
        for method in (Method("wide", 1, 1 / 5000), METHODS[0], Method("narrow", 1, 50))
    )
    assert wide == pytest.approx(rows, abs=0.05)
    assert narrow > rows + 0.05


def test_components_of_hashed_vectors_collide_one_by_one():
    """Two of 300 entities share no more than a few of 32 components, at unrelated cells."""
    cells, signs = np.empty((300, 32), np.int64), np.empty((300, 32), np.float32)
    hashes = np.array([hash64(np.uint64(n)) for n in range(300)], np.uint64)
    place_cells(hashes, np.uint64(300 * 32), cells, signs)
    shared = [len(np.intersect1d(a, b)) for n, a in enumerate(cells) for b in cells[:n]]
    assert 0 < max(shared) <= 4
    assert cells.min() >= 0
    assert cells.max() < 300 * 32
    # 6 standard deviations of 9,600 fair signs: wrong once in 5e8 choices of the hash.
    assert abs(signs.sum()) < 6 * 98
    assert set(np.unique(signs)) == {-1.0, 1.0}


def test_memory_is_that_of_gamma():
    rows, sketch = (EpochModel(m, 600, 400, 32) for m in (METHODS[0], Method("s", 4, 2.0)))
    assert rows.memory_bytes == 1000 * 32 * 4 + 8 * 1000
    assert sketch.memory_bytes == 500 * 32 * 4 + 8 * 1000


def test_large_errors_are_skipped_and_counted():
    model = EpochModel(METHODS[1], 10, 10)
    part = Part(np.arange(4), np.arange(4), np.array([1.0, 5.0, 3.0, 3.0]))
    model.learn(part, Steps(0.01, 0.0, clip=1.0), 0)
    assert model.skipped == 2
    model.learn(part, Steps(0.01, 0.0), 0)
    assert model.skipped == 0


@pytest.mark.parametrize(
    "wrong", [{"eta": 0}, {"eta": 1}, {"lam": -1}, {"epochs": 0}, {"clip": 0}, {"clip": math.nan}]
)
def test_a_setting_out_of_range_is_refused(wrong):
    with pytest.raises(ValueError, match="must be"):
        Steps(**{"eta": 0.1, "lam": 0.1} | wrong)
    with pytest.raises(ValueError, match="factors 33"):
        EpochModel(METHODS[0], 3, 3, 33)


def test_rare_users_and_items_are_not_tested():
    ratings = world(2500)
    fold = chapter.fold_of(ratings, 7)
    users = np.unique(ratings.users, return_inverse=True)[1]
    items = np.unique(ratings.items, return_inverse=True)[1]
    rare_user, rare_item = np.bincount(users) < 10, np.bincount(items) < 10
    assert rare_user.any()
    for part in (fold.validation, fold.test):
        assert not rare_user[part.users].any()
        assert not rare_item[part.items].any()
    assert len(fold.training) == len(ratings.stars) * 8 // 10


def test_the_search_never_sees_the_test_part():
    fold = chapter.fold_of(world(), 0)
    garbage = chapter.Fold(
        fold.training, fold.validation, fold.test.at(np.arange(1)), fold.users, fold.items
    )
    for method in METHODS:
        assert chapter.searched(fold, method, 2, 8, fine=False) == chapter.searched(
            garbage, method, 2, 8, fine=False
        )


def test_too_few_ratings_are_refused():
    with pytest.raises(ValueError, match="too few"):
        chapter.fold_of(StarRatings(*(np.zeros(5, np.uint64),) * 2, np.ones(5)), 0)


@pytest.mark.thorough
def test_every_figure_has_its_lines():
    ratings = world(3000)
    table = chapter.t4_2(ratings, folds=2, epochs=2, fine=False)
    assert [each.name for each in table.series] == ["regular", "sketch, k = 4", "hashing"]
    assert [row.claimed for row in table.published[:3]] == ["0.873", "0.876", "0.906"]
    assert len(chapter.f4_1(ratings, factors=(2, 4), gammas=(1.0, 2.0), epochs=1).series) == 4
    assert [len(each.y) for each in chapter.f4_3(ratings, epochs=2, fine=False).series] == [2] * 3
    assert [len(each.y) for each in chapter.f4_4(ratings, factors=(1, 2)).series] == [2] * 3
    assert len(chapter.f4_5(ratings, pulls=(0.0, 0.1), epochs=1).series) == 3
    clipped = chapter.f4_7(ratings, clips=(1.0, math.inf), factors=(4,), epochs=1)
    assert clipped.series[0].x == (1.0, 32.0)
    assert "1: " in clipped.published[1].measured
