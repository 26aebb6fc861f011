"""Lists made on the device."""

from __future__ import annotations

import numpy as np
import pytest

from producers.ranking.ranker import Ranker, like_weight
from stream_app.ranking.derivation import derive
from tests.stream_app.ranking.tables import devices, public

CLUSTERS = 4


@pytest.fixture(scope="module")
def ranker() -> Ranker:
    counts = public(devices(np.random.default_rng(5), users=1500, clusters=CLUSTERS))
    return Ranker(derive(counts, np.full(len(counts.keys), 3.5, np.float32)))


def clusters(ranked) -> set[int]:
    return {(row.item - 1) % CLUSTERS for row in ranked}


def test_a_list_is_of_the_users_taste_and_leaves_out_what_is_rated(ranker):
    had = [1, 5, 9]
    ranked = ranker.rank(had, [5.0, 4.0, 5.0], k=8)
    assert clusters(ranked) == {0}
    assert not {row.item for row in ranked} & set(had)
    assert [row.score for row in ranked] == sorted((row.score for row in ranked), reverse=True)


def test_the_newest_items_decide(ranker):
    older, newer = [1, 5, 9, 13], [2, 6, 10, 14]
    assert clusters(ranker.rank(older + newer, None, k=3)) == {1}
    assert clusters(ranker.rank(newer + older, None, k=3)) == {0}


def test_without_an_order_nothing_depends_on_it(ranker):
    items = [1, 5, 9, 2, 6]
    forward = ranker.rank(items, None, k=10, in_order=False)
    back = ranker.rank(items[::-1], None, k=10, in_order=False)
    assert [row.item for row in forward] == [row.item for row in back]


def test_stars_decide_between_tastes(ranker):
    items = [1, 2, 5, 6, 9, 10]
    likes_even = [1.0, 5.0] * 3
    assert clusters(ranker.rank(items, likes_even, k=4, in_order=False)) == {1}
    assert clusters(ranker.rank(items, likes_even[::-1], k=4, in_order=False)) == {0}


def test_because_names_items_of_the_history_of_the_same_taste(ranker):
    ranked = ranker.rank([1, 5, 2, 9], None, k=5, because=True)
    for row in ranked:
        assert row.because
        assert set(row.because) <= {1, 5, 2, 9}
        assert (row.because[0] - 1) % CLUSTERS == (row.item - 1) % CLUSTERS


def test_without_known_items_the_list_is_the_popular_items(ranker):
    popular = ranker.side.keys[np.argsort(-ranker.side.popularity, kind="stable")[:5]]
    for unknown in ([], [999, 1000]):
        ranked = ranker.rank(unknown, None, k=5, because=True)
        assert [row.item for row in ranked] == popular.tolist()
        assert all(row.because == () for row in ranked)


def test_a_later_rating_of_an_item_replaces_the_earlier(ranker):
    once = ranker.rank([5, 2, 1], [4.0, 3.0, 5.0], k=5)
    history = ranker.history([1, 5, 2, 1], [1.0, 4.0, 3.0, 5.0])
    assert len(history.slots) == 3
    assert [row.item for row in ranker.rank([1, 5, 2, 1], [1.0, 4.0, 3.0, 5.0], k=5)] == [
        row.item for row in once
    ]


def test_k_beyond_the_catalogue_gives_all_that_is_left(ranker):
    assert len(ranker.rank([1, 2], None, k=1000)) == len(ranker.side) - 2
    assert ranker.rank([1, 2], None, k=0) == []


@pytest.mark.parametrize("rating", [0.0, 5.5, float("nan")])
def test_a_rating_off_the_scale_is_refused_without_naming_it(ranker, rating):
    with pytest.raises(ValueError, match="internal scale") as refusal:
        ranker.rank([1], [rating])
    assert str(rating) not in str(refusal.value)


def test_items_without_a_rating_each_are_refused(ranker):
    with pytest.raises(ValueError, match="2 items with 1 ratings"):
        ranker.rank([1, 2], [4.0])


def test_the_weight_of_a_like_grows_with_the_stars():
    weights = [like_weight(stars) for stars in np.linspace(1, 5, 17)]
    assert weights == sorted(weights)
    assert like_weight(None) == 1.0
