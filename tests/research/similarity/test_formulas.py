"""Slope One and cosine on tables against their formulas on profiles, and their edges."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from research.similarity import cosine, slope_one
from research.similarity.table import slots_of
from stream_app.ranking.scores import ties, top_slots
from tests.fixtures import cosine_stars
from tests.naive import similarity as naive
from tests.research.similarity.ratings import drawn, tabled

BETAS = [None, 0.0, 0.5, 10.0]


def profiles_of(stars: np.ndarray) -> list[naive.Profile]:
    return [{j: r for j, r in enumerate(row) if r == r} for row in stars]


def history(row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    slots = np.flatnonzero(~np.isnan(row))
    return slots, row[slots]


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("least", [0, 3])
def test_deviations_are_those_of_the_formula(beta, least):
    stars = drawn(np.random.default_rng(1), users=25, items=9, share=0.3)
    profiles = profiles_of(stars)
    found = slope_one.deviations(tabled(stars), beta, least)
    for j in range(9):
        for k in range(9):
            expected = naive.deviation(profiles, j, k, beta, least)
            assert found[j, k] == pytest.approx(expected, abs=1e-5)
    assert (found == -found.T).all()


@pytest.mark.parametrize("beta", [0.0, 0.5, 10.0])
def test_deviations_towards_the_means_are_those_of_the_formula(beta):
    stars = drawn(np.random.default_rng(11), users=12, items=9, share=0.2)
    stars[:, 4] = np.nan
    found = slope_one.deviations(tabled(stars), beta, towards_means=True)
    for j in range(9):
        for k in range(9):
            expected = naive.deviation_towards_means(profiles_of(stars), j, k, beta)
            assert found[j, k] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("least_profile", [None, 1, 6, 40])
def test_predictions_of_slope_one_are_those_of_the_formula(beta, least_profile):
    stars = drawn(np.random.default_rng(2), users=30, items=24, share=0.9)
    profiles = profiles_of(stars)
    found = slope_one.deviations(tabled(stars), beta)
    for user in (0, 1):
        slots, ratings = history(stars[user])
        assert len(slots) > 16  # more than are added at once
        predicted = slope_one.predict(found, slots, ratings, least_profile)
        for j in range(24):
            expected = naive.slope_one(profiles, profiles[user], j, beta, least_profile)
            assert predicted[j] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("beta", [0.0, 0.5, 10.0])
@pytest.mark.parametrize("least_profile", [1, 6, 40])
def test_scores_of_cosine_are_those_of_the_formula(beta, least_profile):
    stars = drawn(np.random.default_rng(3), users=25, items=9, share=0.3)
    profiles = profiles_of(stars)
    found = cosine.similarities(tabled(stars), beta)
    for user in range(5):
        slots, _ = history(stars[user])
        scores = cosine.scores(found, slots, least_profile)
        for j in range(9):
            expected = naive.cosine_score(profiles, profiles[user], j, beta, least_profile)
            assert scores[j] == pytest.approx(expected, abs=1e-6)
    assert (found == found.T).all()


def test_plain_cosine_is_that_without_damping():
    table = tabled(drawn(np.random.default_rng(4)))
    assert (cosine.similarities(table) == cosine.similarities(table, 0.0)).all()


def test_a_prediction_of_cosine_is_a_mean_of_what_similar_items_were_above_theirs():
    stars = drawn(np.random.default_rng(5), users=30, items=8)
    table = tabled(stars)
    found, means = cosine.similarities(table, 2.0), cosine_stars.item_means(table)
    slots, ratings = history(stars[0])
    predicted = cosine_stars.predict(found, means, slots, ratings, shrink=0.7)
    for j in range(8):
        weights = [float(found[k, j]) for k in slots]
        above = sum(w * (r - means[k]) for w, k, r in zip(weights, slots, ratings, strict=True))
        expected = min(max(means[j] + above / (sum(weights) + 0.7), 1), 5)
        assert predicted[j] == pytest.approx(expected, abs=1e-5)


def test_item_means_are_drawn_to_the_overall_mean():
    stars = np.array([[5, np.nan, np.nan], [5, 2, np.nan]])
    assert cosine_stars.item_means(tabled(stars)) == pytest.approx([30 / 7, 22 / 6, 4.0])
    assert (cosine_stars.item_means(tabled(stars * np.nan)) == 3).all()


# --- edges ----------------------------------------------------------------------------------------


def every_answer(table, slots, ratings):
    """Yield all that is computed for a user, plain and damped."""
    for beta in (None, 0.0, 10.0):
        deviations, similarities = (
            slope_one.deviations(table, beta),
            cosine.similarities(table, beta),
        )
        yield deviations
        yield similarities
        if beta is not None:
            yield slope_one.deviations(table, beta, towards_means=True)
        for least_profile in (None, 20):
            yield slope_one.predict(deviations, slots, ratings, least_profile)
        yield cosine.scores(similarities, slots, 20)
        yield cosine_stars.predict(similarities, cosine_stars.item_means(table), slots, ratings)


@pytest.mark.parametrize(
    "stars",
    [
        np.full((3, 4), np.nan),
        np.array([[5.0, np.nan], [np.nan, 1.0]]),
        np.array([[4.0, 4.0, np.nan]]),
        np.ones((5, 1)),
        np.zeros((0, 3)),
    ],
    ids=["no ratings", "no co-raters", "an item without raters", "one item", "no users"],
)
@pytest.mark.parametrize("slots", [[], [0], [-1], [-1, 0, -1]])
def test_what_nothing_is_known_of_is_never_nan(stars, slots):
    ratings = np.full(len(slots), 4.0)
    with np.errstate(all="raise"):
        for found in every_answer(tabled(stars), np.array(slots, np.int64), ratings):
            assert np.isfinite(found).all()


def test_sums_with_noise_that_are_below_zero_give_finite_answers():
    table = tabled(drawn(np.random.default_rng(14)))
    random = np.random.default_rng(15)
    noise = random.normal(0, 30, table.counts.shape).astype(np.float32)
    noised = dataclasses.replace(
        table, counts=table.counts + noise + noise.T, sums=table.sums + noise[0]
    )
    assert noised.raters.min() < 0
    with np.errstate(all="raise"):
        for found in every_answer(noised, np.array([0, 3]), np.array([1.0, 5.0])):
            assert np.isfinite(found).all()
        deviations = slope_one.deviations(noised, 5.0)
        assert (np.abs(deviations) <= np.abs(noised.differences) / 5 + 1e-6).all()


def test_pairs_without_co_raters_have_no_difference_and_no_similarity():
    table = tabled(np.array([[5.0, np.nan], [np.nan, 1.0]]))
    assert not slope_one.deviations(table).any()
    assert not cosine.similarities(table).any()


def test_without_a_known_rating_all_items_are_in_the_middle():
    table = tabled(drawn(np.random.default_rng(6), 10, 5))
    for slots in ([], [-1, -1]):
        empty = np.array(slots, np.int64), np.full(len(slots), 5.0)
        assert (slope_one.predict(slope_one.deviations(table, 1.0), *empty, 20) == 3).all()
        assert (slope_one.predict(slope_one.deviations(table), *empty) == 3).all()
        assert not cosine.scores(cosine.similarities(table), empty[0], 20).any()


def test_ratings_of_items_outside_the_table_change_nothing():
    table = tabled(drawn(np.random.default_rng(7)))
    inside, outside = np.array([3, 5]), np.array([3, -1, 5, -1])
    few, more = np.array([5.0, 1.0]), np.array([5.0, 1.0, 1.0, 2.0])
    deviations, similarities = slope_one.deviations(table, 5.0), cosine.similarities(table, 5.0)
    means = cosine_stars.item_means(table)
    for least in (None, 3):
        assert (
            slope_one.predict(deviations, inside, few, least)
            == slope_one.predict(deviations, outside, more, least)
        ).all()
    assert (cosine.scores(similarities, inside) == cosine.scores(similarities, outside)).all()
    assert (
        cosine_stars.predict(similarities, means, inside, few)
        == cosine_stars.predict(similarities, means, outside, more)
    ).all()


def test_a_user_with_few_ratings_is_near_the_middle_and_not_refused():
    table = tabled(drawn(np.random.default_rng(8), 60, 6, 0.7))
    deviations = slope_one.deviations(table, 1.0)
    one = slope_one.predict(deviations, np.array([0]), np.array([5.0]), 20)
    assert (np.abs(one - 3) <= 2 / 20 + 1e-6).all()
    assert one.max() > 3


@pytest.mark.parametrize("damping", [-1.0, np.nan, np.inf])
def test_a_damping_that_is_none_is_refused(damping):
    table = tabled(drawn(np.random.default_rng(9)))
    for make in (slope_one.deviations, cosine.similarities):
        with pytest.raises(ValueError, match=f"damping {damping}"):
            make(table, damping)


def test_ratings_that_are_none_are_refused():
    table = tabled(drawn(np.random.default_rng(9)))
    deviations = slope_one.deviations(table)
    with pytest.raises(ValueError, match="finite"):
        slope_one.predict(deviations, np.array([0]), np.array([np.nan]))
    with pytest.raises(ValueError, match="2 items with 1 ratings"):
        slope_one.predict(deviations, np.array([0, 1]), np.array([1.0]))


def test_a_table_of_another_order_of_items_gives_the_same_answers():
    stars = drawn(np.random.default_rng(13))
    table = tabled(stars)
    order = np.random.default_rng(1).permutation(len(table))
    mixed = dataclasses.replace(
        table,
        keys=table.keys[order],
        counts=table.counts[np.ix_(order, order)],
        differences=table.differences[np.ix_(order, order)],
        sums=table.sums[order],
    )
    items, ratings = table.keys[history(stars[0])[0]], history(stars[0])[1]
    lists = []
    for each in (table, mixed):
        scores = cosine.scores(cosine.similarities(each, 2.0), slots_of(each.keys, items), 5)
        lists.append(each.keys[top_slots(scores, 12, None, ties(each.keys))].tolist())
    assert lists[0] == lists[1]
    assert len(ratings)
