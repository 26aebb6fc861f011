"""Scores of a campaign's items: links and a prior in one unit, against the obvious version."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.campaigns.features import features_of
from stream_app.campaigns.item_scores import ItemScores, public_shares, shares
from stream_app.campaigns.public_side import PublicSide
from stream_app.campaigns.rated_items import RatedItems
from stream_app.campaigns.together import TogetherSide
from tests.naive import campaign_lists as naive

ITEMS, LINKED = 24, 20
FEATURES = features_of([(("drama",) if k % 2 else ("war",), 1960 + 3 * k) for k in range(ITEMS)])


def likes(*rated: tuple[int, float]) -> RatedItems:
    places, stars = (np.array(column) for column in zip(*rated, strict=True))
    return RatedItems(places.astype(np.intp), stars.astype(float), stars >= 4)


def directions(count: int, seed: int = 0) -> TogetherSide:
    random = np.random.default_rng(seed)
    vectors = np.linalg.qr(random.normal(size=(LINKED, LINKED)))[0][:, :count]
    return TogetherSide(vectors.astype(np.float32), np.linspace(0.9, 0.2, count, dtype=np.float32))


def side(count: int) -> PublicSide:
    return PublicSide(1, tuple(range(ITEMS)), directions(count))


RATED = st.lists(
    st.tuples(st.integers(0, ITEMS - 1), st.sampled_from([1.0, 3.0, 4.0, 4.5, 5.0])),
    min_size=1,
    unique_by=lambda row: row[0],
)


@given(RATED, st.booleans(), st.sampled_from([3, 4, 14, 16, 20]))
def test_a_score_is_the_links_and_the_share(rated, by_recency, count):
    found = ItemScores(side(count), FEATURES).of_person(likes(*rated), by_recency=by_recency)
    x, liked = [0.0] * ITEMS, [row for row in rated if row[1] >= 4]
    for age, (place, stars) in enumerate(reversed(liked)):
        x[place] = naive.like(age if by_recency else 0, stars)
    share = naive.shares(naive.public_shares(ITEMS), FEATURES.tolist(), x)
    learned = directions(count)
    for j in range(ITEMS):
        added = 0.0
        if j < LINKED:
            terms = (learned.vectors.tolist(), learned.weights.tolist())
            added = sum(x[i] * naive.links(*terms, i, j) for i in range(LINKED))
        assert found[j] == pytest.approx(added + naive.prior_likes(count) * share[j], abs=1e-5)


@given(RATED)
def test_too_few_directions_leave_the_prior(rated):
    few, none = (
        ItemScores(PublicSide(1, tuple(range(ITEMS)), learned), FEATURES).of_person(likes(*rated))
        for learned in (directions(2), None)
    )
    assert np.array_equal(few, none)


@given(RATED)
def test_without_features_the_prior_is_the_order_of_the_scope(rated):
    unknown = features_of([((), None)] * ITEMS)
    for features in (None, unknown):
        scores = ItemScores(PublicSide(1, tuple(range(ITEMS))), features)
        assert not scores.has_features
        assert np.array_equal(np.argsort(-scores.of_person(likes(*rated))), np.arange(ITEMS))


def test_without_a_like_the_order_is_that_of_popularity():
    scores = ItemScores(side(4), FEATURES)
    for rated in (RatedItems.none(), likes((3, 2.0), (5, 1.0))):
        assert np.array_equal(np.argsort(-scores.of_person(rated)), np.arange(ITEMS))


def test_likes_raise_the_items_of_their_genre_and_year():
    scores = ItemScores(PublicSide(1, tuple(range(ITEMS))), FEATURES)
    before = scores.of_person(RatedItems.none())
    after = scores.of_person(likes((1, 5.0), (3, 5.0), (5, 5.0)))
    rise = after / before
    assert (rise[1::2] > rise[::2]).all(), "the own genre, of nearly the same year"
    assert rise[1] > 1 > rise[-2]
    assert rise[1] > rise[-1], "the own years, of the same genre"


def test_five_stars_and_the_newest_like_count_most():
    found = ItemScores(side(4), FEATURES)
    x = found.likes(likes((0, 4.0), (1, 5.0), (2, 5.0)))
    assert 0 < x[0] < x[1] < x[2]
    assert not x[3:].any()
    x = found.likes(likes((2, 5.0), (0, 4.0), (1, 5.0)), by_recency=False)
    assert 0 < x[0] < x[1] == x[2]


def test_features_are_of_the_items_of_the_scope():
    with pytest.raises(ValueError, match="features of 24 items instead of 25"):
        ItemScores(PublicSide(1, tuple(range(ITEMS + 1))), FEATURES)


def test_a_history_of_thousands_of_likes_has_finite_scores():
    items = 3_000
    known = features_of([(("rare",) if k == 7 else (), None) for k in range(items)])
    likes_of_one = np.zeros(items)
    likes_of_one[7] = 1e6
    found = shares(public_shares(items), known, likes_of_one)
    assert np.isfinite(found).all()
    assert found.sum() == pytest.approx(1)
    assert found.argmax() == 7
