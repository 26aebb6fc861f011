"""Slope One and cosine as learners: a stream leaves what the table of its whole file says."""

from __future__ import annotations

import numpy as np
import pytest

from research import co_rated
from research.co_rated import CO_RATED
from research.similarity import cosine, slope_one, table
from research.similarity.table import slots_of
from stream_app.models.factorization.learner import LearnerSpec
from tests.fixtures import cosine_stars
from tests.stream_app.models.learners import CHANNELS, CLEAN, NOISY, SIZES, batch_of, stream

every_model = pytest.mark.parametrize("model", CO_RATED)


def built(model: str) -> co_rated.CoRatedLearner:
    return CO_RATED[model](CHANNELS, LearnerSpec(seed=5, **SIZES))


def clean_stream(
    events: int = 600, users: int = 25, items: int = 300
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return users, items and levels 0 .. 4, each cell at most once."""
    random = np.random.default_rng(events)
    cells = random.choice(users * items, events, replace=False)
    return cells // items, cells % items, random.integers(0, 5, events)


def learned(model: str, users: np.ndarray, items: np.ndarray, levels: np.ndarray):
    learner = built(model)
    rows = zip(users, items, levels, strict=True)
    learner.learn_many(*batch_of([(u, i, z, CLEAN, True) for u, i, z in rows]))
    return learner


def offline(model: str, found: table.CoRatingTable, slots: np.ndarray, stars: np.ndarray, mean):
    if model == "cosine":
        sums = found.sums + 5 * np.float32(mean)
        means = sums / (found.raters + 5)
        return cosine_stars.predict(cosine.similarities(found), means, slots, stars)
    if model == "slope-one":
        return slope_one.predict(slope_one.deviations(found), slots, stars)
    deviations = slope_one.deviations(found, co_rated.DAMPING, towards_means=True)
    return slope_one.predict(deviations, slots, stars, co_rated.LEAST_PROFILE)


@every_model
def test_a_stream_leaves_what_the_table_of_the_whole_file_says(model):
    """300 items, so that the arrays grow once."""
    users, items, levels = clean_stream()
    learner = learned(model, users, items, levels)
    keys = np.unique(items)
    found = table.from_ratings(users, items, levels + 1.0, keys)
    for user in range(5):
        own = users == user
        expected = offline(
            model, found, slots_of(found.keys, items[own]), levels[own] + 1.0, learner.mean
        )
        predicted = learner.predict_many(
            np.full(len(keys), user, np.uint64), keys.astype(np.uint64)
        )
        assert predicted == pytest.approx(np.clip(expected, 1, 5), abs=1e-4)


@every_model
def test_a_batch_may_be_cut_anywhere(model):
    batch = stream(600, 4)
    whole, parts = built(model), built(model)
    once = whole.learn_many(*batch)
    twice = [parts.learn_many(*(column[cut] for column in batch)) for cut in CUTS]
    for name in ("predicted", "error", "clipped"):
        joined = np.concatenate([getattr(each, name) for each in twice])
        assert getattr(once, name).tobytes() == joined.tobytes()


CUTS = (slice(0, 1), slice(1, 333), slice(333, 600))


@every_model
def test_a_rating_is_predicted_before_it_is_learned_and_only_then_counted(model):
    users, items, levels = clean_stream(200, users=10, items=30)
    learner = built(model)
    for n in range(200):
        (predicted,) = learner.predict_many(
            *(column[n : n + 1].astype(np.uint64) for column in (users, items))
        )
        row = [(users[n], items[n], levels[n], CLEAN, True)]
        assert learner.learn_many(*batch_of(row)).predicted[0] == predicted


@every_model
def test_a_second_rating_of_an_item_by_its_user_changes_no_pair(model):
    users, items, levels = clean_stream(200, users=10, items=30)
    learner = learned(model, users, items, levels)
    pairs, raters = learner._pairs.copy(), learner._items.copy()
    learner.learn_many(*batch_of([(users[0], items[0], (levels[0] + 2) % 5, CLEAN, True)]))
    assert (learner._pairs == pairs).all()
    assert (learner._items == raters).all()


@every_model
def test_unknown_users_and_items_have_means(model):
    users, items, levels = clean_stream()
    learner = learned(model, users, items, levels)
    new, known = 10**6, items[0]
    (nothing, of_item, of_user) = learner.predict_many(
        np.array([new, new, users[0]], np.uint64), np.array([new, known, new], np.uint64)
    )
    assert nothing == pytest.approx(learner.mean)
    rated = levels[items == known] + 1.0
    assert of_item == pytest.approx((rated.sum() + 5 * learner.mean) / (len(rated) + 5))
    own = levels[users == users[0]] + 1.0
    assert of_user == pytest.approx((own.sum() + 5 * learner.mean) / (len(own) + 5))
    assert np.isfinite(built(model).predict_many(*(np.array([3], np.uint64),) * 2)).all()


@every_model
def test_items_beyond_the_most_have_no_pairs(model, monkeypatch):
    monkeypatch.setattr(co_rated, "MOST_ITEMS", 5)
    users, items, levels = clean_stream(200, users=10, items=30)
    learner = learned(model, users, items, levels)
    kept = np.isin(items, list(dict.fromkeys(items.tolist()))[:5])
    few = learned(model, users[kept], items[kept], levels[kept])
    assert learner._pairs[:5, :5].tobytes() == few._pairs[:5, :5].tobytes()
    outside = next(item for item in items if item not in set(items[kept]))
    (found,) = learner.predict_many(users[:1].astype(np.uint64), np.array([outside], np.uint64))
    own = (levels + 1.0)[kept & (users == users[0])]
    assert len(own)
    assert found == pytest.approx((own.sum() + 5 * learner.mean) / (len(own) + 5))


def test_a_noised_rating_counts_with_its_posterior_mean():
    """Of a channel that says little, the pair's difference is nearer to what was predicted."""
    differences = []
    for channel in (CLEAN, NOISY):
        learner = built("slope-one")
        learner.learn_many(*batch_of([(1, 1, 2, CLEAN, True), (1, 2, 4, channel, True)]))
        differences.append(float(learner._pairs[1, 0, 1]))
    assert 0.1 < differences[1] < differences[0] == pytest.approx(2.0)
