"""Lists and near items by co-ratings: the scores of the library over the devices' own ratings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from research.similarity import slope_one
from research.similarity.rated_table import from_ratings
from stream_app.privacy import registry
from stream_app.ranking.similarity import METHODS, cosine
from stream_app.ranking.similarity.table import slots_of
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.ranked_items import RankedItems
from stream_app.serving.recommender import Recommender
from stream_app.serving.served_side import ServedMethod
from stream_app.serving.together.co_rated import DAMPING, CoRated
from stream_app.serving.together.similar_items import similar_items
from stream_app.settings import LISTS_BY_CO_RATINGS
from stream_app.wire import CatalogueEntry, Event, encode_message
from tests.fixtures.clusters import HALF, device_of, half_of, learned, liked
from tests.stream_app.serving.sides import CO_RATED, LEARNED, derived, trained, weighted


def serving(method: str | None, catalogue: Catalogue | None = None) -> Recommender:
    recommender = trained(spec=CO_RATED, listed_by=method, catalogue=catalogue)
    derived(recommender)
    return recommender


def table_of(recommender: Recommender) -> CoRated:
    assert recommender.served is not None
    assert recommender.served.co_rated is not None
    return recommender.served.co_rated


def test_the_setting_names_the_methods_of_the_library() -> None:
    assert sorted(LISTS_BY_CO_RATINGS) == sorted(METHODS)


def test_cosine_lists_are_of_the_own_taste_with_a_rated_item_behind_each_entry() -> None:
    recommender = serving("cosine")
    for number in range(8):
        seen = set(recommender.replica.history(device_of(number))[0].tolist())
        answer = recommender.answer(device_of(number), 7)
        assert answer.method == "cosine"
        assert set(answer.items.tolist()) <= set(half_of(number)) - seen
        assert set(answer.because) <= seen


def of_many_stars(method: str) -> Recommender:
    """Return a recommender of 80 devices with ratings of 1 to 5 stars."""
    recommender = trained(devices=0, spec=CO_RATED, listed_by=method)
    rng = np.random.default_rng(3)
    for number in range(80):
        items = rng.choice(2 * HALF, 6, replace=False).astype(np.uint64)
        levels = rng.integers(0, 5, 6).astype(np.uint8)
        learned(recommender.replica, Event(device_of(number), 1, "none:5:inf", 0, items, levels))
    recommender.replica.end_round(2, recommender.replica.end_offsets)
    derived(recommender)
    return recommender


@pytest.mark.parametrize("method", METHODS)
def test_a_list_is_that_of_the_library(method: str) -> None:
    """From the ratings that the state holds, put together offline."""
    recommender = of_many_stars(method)
    table, rows = table_of(recommender), []
    for number in range(80):
        keys, stars = recommender.rated(device_of(number))
        rows += [(number, int(k), float(s)) for k, s in zip(keys, stars, strict=True)]
    offline = from_ratings(*zip(*rows, strict=True), table.keys)
    keys, stars = recommender.rated(device_of(1))
    slots, similarities = slots_of(offline.keys, keys), cosine.similarities(offline, DAMPING)
    expected = cosine.scores(similarities, slots)
    if method == "slope-one":
        deviations = slope_one.deviations(offline, DAMPING, towards_means=True)
        expected = slope_one.predict(deviations, slots, stars)
    answer = recommender.answer(device_of(1), 7)
    allowed = ~np.isin(table.keys, keys) & (similarities[slots].sum(axis=0) > 0)
    best = np.sort(expected[allowed])[::-1][:7]
    assert np.allclose(expected[slots_of(offline.keys, answer.items)], best, atol=1e-5)
    assert len(answer.items) == 7
    if method == "slope-one":
        assert np.allclose(answer.scores, np.clip(best, 1, 5), atol=1e-5)
        assert len(set(answer.scores.tolist())) > 1
    assert ((answer.scores >= 1) & (answer.scores <= 5)).all()


@pytest.mark.parametrize("method", METHODS)
def test_a_stranger_and_a_user_with_one_rating_outside_the_head_get_popular_items(
    method: str,
) -> None:
    recommender = serving(method)
    learned(recommender.replica, liked(500, [7777], 1))
    for device in (bytes(16), device_of(500)):
        answer = recommender.answer(device, 5)
        assert answer.method == "popular"
        assert answer.because == ()
        assert len(answer.items) == 5


@pytest.mark.parametrize("method", METHODS)
def test_one_rating_is_enough_for_a_list(method: str) -> None:
    recommender = serving(method)
    learned(recommender.replica, liked(501, [3], 1))
    answer = recommender.answer(device_of(501), 5)
    assert answer.method == method
    assert set(answer.because) <= {3, None}
    assert 3 not in answer.items


@pytest.mark.parametrize("method", METHODS)
def test_more_than_what_is_unseen_is_all_of_it_once(method: str) -> None:
    catalogue = Catalogue()
    catalogue.learn(b"13", encode_message(CatalogueEntry(13, withdrawn=True)))
    recommender = serving(method, catalogue)
    seen = recommender.replica.history(device_of(0))[0].tolist()
    answer = recommender.answer(device_of(0), 100)
    assert sorted(answer.items.tolist()) == sorted(set(range(2 * HALF)) - {13} - set(seen))
    assert len(answer.because) == len(answer.items) == len(answer.scores)


@pytest.mark.parametrize("method", METHODS)
def test_items_of_which_nothing_is_known_follow_as_popular_ones(method: str) -> None:
    """By popularity x predicted rating, without a reason."""
    recommender = serving(method)
    answer = recommender.answer(device_of(0), 100)
    other = [place for place, item in enumerate(answer.items) if item not in half_of(0)]
    assert other == list(range(len(answer.items) - HALF, len(answer.items)))
    assert [answer.because[place] for place in other] == [None] * HALF
    rows = recommender.replica.items.rows(answer.items[other])
    ratings = answer.scores[other] * recommender.replica.items.reports[rows]
    assert (np.diff(ratings) <= 1e-9).all()


def test_an_item_without_a_slot_is_no_other_one() -> None:
    table = table_of(serving("cosine"))
    keys = np.array([999, 3, 2**63 + 5], np.uint64)
    assert table.slots_of(keys).tolist() == [-1, int(np.flatnonzero(table.keys == 3)[0]), -1]
    assert not table.rated(keys[[0, 2]], np.ones(2, np.float32)).known


def test_learned_weights_do_not_take_its_place() -> None:
    """Where a table is missing the list is the popular items, and what is measured of lists by
    weights is not said of lists by co-ratings."""
    recommender = serving("cosine")
    assert recommender.served is not None
    recommender.adopt(weighted(recommender.served, LEARNED))
    recommender.standing = ServedMethod(0.5, 0.1, "", "learned")
    assert recommender.answer(device_of(0), 5).method == "popular"
    derived(recommender)
    answer = recommender.answer(device_of(0), 5)
    assert (answer.method, answer.ndcg) == ("cosine", None)


def test_without_co_ratings_lists_are_popular_until_there_is_a_table() -> None:
    recommender = trained(spec=CO_RATED, listed_by="cosine")
    assert recommender.answer(device_of(0), 5).method == "popular"
    derived(recommender)
    assert recommender.answer(device_of(0), 5).method == "cosine"


def test_near_items_are_by_cosine_where_the_state_has_co_ratings() -> None:
    recommender = serving(None)
    for item in (0, HALF):
        answer = similar_items(recommender, item, HALF - 1)
        assert isinstance(answer, RankedItems)
        half = set(range(item, item + HALF))
        assert set(answer.items.tolist()) == half - {item}
        assert (answer.method, answer.as_of) == ("cosine", recommender.replica.cut)
    table = table_of(recommender)
    row = table.similarities[table.slots_of(np.array([0], np.uint64))[0]]
    near = similar_items(recommender, 0, 100)
    assert isinstance(near, RankedItems)
    found = row[table.slots_of(near.items)]
    assert (np.diff(found) <= 0).all()
    assert (found > 0).all()


def test_equal_scores_are_ordered_alike_on_every_worker_and_not_by_number() -> None:
    keys = np.arange(40, dtype=np.uint64)
    every = np.repeat(np.arange(30), 40), np.tile(keys, 30), np.full(1200, 4.0)
    one = CoRated(from_ratings(*every, keys))
    other = CoRated(from_ratings(*every, keys[::-1]))
    first, second = one.keys[one.near(0)], other.keys[other.near(39)]
    assert first.tolist() == second.tolist()
    assert first.tolist() != sorted(first.tolist())


@pytest.mark.parametrize("method", METHODS)
def test_an_empty_table_has_no_slots_and_raises_nothing(method: str) -> None:
    table = CoRated(from_ratings([], [], [], []), method)
    rated = table.rated(np.array([5], np.uint64), np.array([4.0], np.float32))
    assert not rated.known
    assert table.scores(rated).shape == (0,)
    assert table.near(-1).tolist() == []


def test_values_that_are_noised_rank_as_the_state_holds_them() -> None:
    """A debiased value lies outside 1 .. 5; the stars shown do not."""
    spec = replace(CO_RATED, mechanisms=(registry.parse("rr:5:1"),))
    recommender = trained(devices=0, spec=spec, listed_by="slope-one")
    for number in range(60):
        items = np.array(sorted(half_of(number)), np.uint64)[: 4 + number % 5]
        reports = ((items + number) % 5).astype(np.uint8)
        learned(recommender.replica, Event(device_of(number), 1, "rr:5:1", 0, items, reports))
    recommender.replica.end_round(2, recommender.replica.end_offsets)
    derived(recommender)
    stars = recommender.rated(device_of(0))[1]
    assert stars.max() > 5 or stars.min() < 1
    answer = recommender.answer(device_of(0), 10)
    assert answer.method == "slope-one"
    assert ((answer.scores >= 1) & (answer.scores <= 5)).all()


def test_the_order_of_a_history_changes_neither_list_nor_reasons() -> None:
    """Order within a message is no time."""
    recommender = of_many_stars("cosine")
    table, (keys, stars) = table_of(recommender), recommender.rated(device_of(1))
    one, other = table.rated(keys, stars), table.rated(keys[::-1], stars[::-1])
    assert np.allclose(table.scores(one), table.scores(other), atol=1e-6)
    listed = np.arange(2 * HALF)[~np.isin(table.keys, keys)]
    # Sums of a row may differ in the last bit; the reasons come from single similarities.
    assert table.because(one, listed) == table.because(other, listed)
