"""Component scores, the blend and the best k, each against the obvious version."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.ranking import ease, ordered
from stream_app.ranking.derivation import Derivation, derive
from stream_app.ranking.histories import History
from stream_app.ranking.scores import (
    Components,
    Weights,
    blend,
    component_scores,
    fallback,
    posterior_likes,
    standardised,
    taste_vector,
    top_slots,
)
from tests.naive import ranking as naive
from tests.stream_app.ranking.tables import devices, public

ITEMS = 30
HAD, LIKES, AGES = [4, 9, 17], [1.0, 0.5, 0.8], [2.0, 0.0, 7.0]


@pytest.fixture(scope="module")
def counts():
    random = np.random.default_rng(9)
    x = devices(random, users=500, items=ITEMS)
    return public(x, ordered=random.random((ITEMS, ITEMS)).astype(np.float32) * 30)


@pytest.fixture(scope="module")
def side(counts):
    return derive(counts, np.linspace(1, 5, ITEMS, dtype=np.float32), Derivation(links=ITEMS))


def history(*, with_order: bool = True) -> History:
    ages = np.array(AGES, np.float32) if with_order else None
    return History(np.array(HAD), np.array(LIKES, np.float32), ages)


@pytest.mark.parametrize("with_order", [True, False])
def test_each_component_equals_the_obvious_version(counts, side, with_order):
    found = component_scores(side, history(with_order=with_order))
    ages = AGES if with_order else [0.0] * 3
    x = [like * naive.recency(age) for like, age in zip(LIKES, ages, strict=True)]
    B = naive.ease(ease.moments(counts), ease.ridge(counts))
    assert found.ease == pytest.approx(naive.history_sums(B, HAD, x), abs=1e-4)
    following = naive.following(counts.ordered, counts.reports)
    follows = [naive.recency(age, floor=0) * with_order for age in ages]
    a = [follow * (1 + like) / 2 for like, follow in zip(LIKES, follows, strict=True)]
    assert found.ordered == pytest.approx(naive.history_sums(following, HAD, a), rel=1e-4)
    whole = np.zeros(ITEMS)
    whole[HAD] = x
    taste = naive.posterior_mean(side.factors, side.noise, side.rates, whole)
    assert found.low_rank == pytest.approx(side.rates + side.factors @ taste, abs=1e-4)
    assert found.popular == pytest.approx(counts.sums / counts.exposures)
    assert found.stars == pytest.approx(np.linspace(1, 5, ITEMS))


def test_pruned_links_are_those_of_the_whole_table_or_nothing(counts):
    ratings = np.full(ITEMS, 3, np.float32)
    whole, pruned = (derive(counts, ratings, Derivation(links=links)) for links in (ITEMS, 6))
    for slot in range(ITEMS):
        row = dict(zip(whole.link_targets[slot], whole.link_weights[slot], strict=True))
        kept = zip(pruned.link_targets[slot], pruned.link_weights[slot], strict=True)
        assert all(row[target] == weight for target, weight in kept)


def test_more_noise_pulls_the_taste_to_the_average_user(side):
    channels = (None, (0.9, 0.1), (0.6, 0.4), (0.51, 0.49))
    tastes = [np.abs(taste_vector(side, history(), channel)).sum() for channel in channels]
    assert tastes == sorted(tastes, reverse=True)
    assert tastes[-1] < 0.1 * tastes[0]


def test_the_taste_of_noised_bits_is_the_posterior_mean_under_their_variance(side):
    bits = np.random.default_rng(4).integers(0, 2, ITEMS)
    debiased = (bits - 0.2) / (0.8 - 0.2)
    noised = History(np.arange(ITEMS), debiased.astype(np.float32))
    variance = side.noise + 0.2 * 0.8 / 0.6**2
    expected = naive.posterior_mean(side.factors, variance, side.rates, debiased)
    assert taste_vector(side, noised, (0.8, 0.2)) == pytest.approx(expected, abs=1e-4)


def test_the_low_rank_score_is_an_inner_product(side):
    taste = taste_vector(side, history())
    vectors = np.concatenate([side.rates[:, None], side.factors], axis=1)
    scores = component_scores(side, history()).low_rank
    assert vectors @ np.concatenate([[1], taste]) == pytest.approx(scores, abs=1e-6)


def test_an_empty_history_leaves_the_popular_items(side):
    empty = History(np.zeros(0, np.intp), np.zeros(0, np.float32))
    found = component_scores(side, empty)
    assert not found.ease.any()
    assert not found.ordered.any()
    assert (found.low_rank == side.rates).all()
    popular = top_slots(side.popularity, 5)
    assert (top_slots(found.low_rank, 5) == popular).all()
    weights = Weights(stars=0.0)
    assert (top_slots(blend(found, weights), 5) == popular).all()


def test_the_blend_does_not_depend_on_the_scale_of_a_component(side):
    found = component_scores(side, history())
    scaled = found._replace(ease=7 * found.ease + 3, stars=found.stars / 2)
    assert blend(scaled) == pytest.approx(blend(found), abs=1e-4)


def test_standardised_components_have_mean_zero_and_variance_one(side):
    for scores in standardised(component_scores(side, history())):
        assert scores.mean() == pytest.approx(0, abs=1e-4)
        assert scores.std() == pytest.approx(1, abs=1e-4)


def test_a_component_without_spread_says_nothing():
    flat = np.full(6, 0.25, np.float32)
    rising = np.arange(6, dtype=np.float32)
    found = blend(Components(flat, rising, flat, flat, flat), Weights(ease=1.0))
    assert (np.diff(found) > 0).all()
    assert np.isfinite(found).all()


@pytest.mark.parametrize("k", [0, 1, 3, 8, 9])
@pytest.mark.parametrize("seed", range(4))
def test_the_best_k_are_those_of_a_full_sort_with_equal_scores_by_slot(k, seed):
    random = np.random.default_rng(seed)
    scores = random.integers(0, 4, 12).astype(np.float32)
    allowed = random.random(12) < 0.7
    expected = sorted(np.flatnonzero(allowed), key=lambda slot: (-scores[slot], slot))[:k]
    assert top_slots(scores, k, allowed).tolist() == expected


def test_the_fallback_prefers_popular_and_well_rated_items():
    scores = fallback(np.array([0.1, 0.2, 0.2], np.float32), np.array([4, 4, 5], np.float32))
    assert top_slots(scores, 3).tolist() == [2, 1, 0]


def test_what_follows_is_divided_by_how_often_both_occur(counts):
    table = ordered.following(counts)
    assert table == pytest.approx(np.array(naive.following(counts.ordered, counts.reports)))
    assert ordered.following(counts._replace(ordered=None)) is None


def test_a_like_is_as_probable_as_prior_and_bit_make_it(side):
    taste = taste_vector(side, history())
    prior = np.clip(side.rates + side.factors @ taste, 0.001, 0.999)
    p, q = 0.7, 0.2
    positive = np.arange(ITEMS) % 3 == 0
    found = posterior_likes(side, taste, positive, (p, q))
    for slot in range(ITEMS):
        given = (p, q) if positive[slot] else (1 - p, 1 - q)
        joint = prior[slot] * given[0], (1 - prior[slot]) * given[1]
        assert found[slot] == pytest.approx(joint[0] / sum(joint), rel=1e-4)
    without = posterior_likes(side, taste, positive, (0.5, 0.5))
    assert without == pytest.approx(prior, rel=1e-4)
