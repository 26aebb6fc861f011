"""Links between domains, and profiles of a domain that was never rated."""

from __future__ import annotations

import numpy as np
import pytest

from stream_app.ranking.domains.alter_ego import Middles, alter_ego, predicted
from stream_app.ranking.domains.links import DomainLinks, strongest
from stream_app.ranking.similarity.table import slots_of

FILMS = np.array([30, 10, 20], np.uint64)
BOOKS = np.array([5, 6, 7, 8], np.uint64)
SIMILAR = np.array([[0.1, 0.9, 0.0, 0.4], [0.0, 0.5, 0.2, 0.0], [0.0, -0.5, np.nan, 0.0]])


def links(most: int = 2) -> DomainLinks:
    return strongest(FILMS, BOOKS, SIMILAR, most)


def test_a_row_holds_its_strongest_links_largest_first():
    assert links().places.tolist() == [[1, 3], [1, 2], [-1, -1]]
    assert links().similarities == pytest.approx(np.float32([[0.9, 0.4], [0.5, 0.2], [0, 0]]))
    assert links(99).places.shape == (3, 4)


def test_equal_links_stand_in_an_order_that_no_number_decides():
    keys = np.arange(50, dtype=np.uint64)
    row = strongest(keys[:1], keys[1:], np.full((1, 49), 0.5), 49).places[0]
    assert sorted(row) == list(range(49))
    assert list(row) != sorted(row)
    turned = strongest(keys[:1], keys[:0:-1], np.full((1, 49), 0.5), 49)
    assert keys[:0:-1][turned.places[0]].tolist() == keys[1:][row].tolist()


def test_an_item_has_no_link_to_itself():
    within = strongest(BOOKS, BOOKS, np.ones((4, 4)), 4)
    assert not (within.places == np.arange(4)[:, None]).any()


def test_dense_rows_are_the_kept_links():
    found = links().dense([0, -1, 2, 1])
    wanted = [[0, 0.9, 0, 0.4], [0] * 4, [0] * 4, [0, 0.5, 0.2, 0]]
    assert found == pytest.approx(np.float32(wanted))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sources": np.array([1, 1, 2], np.uint64)}, "source items: each"),
        ({"targets": np.array([5, 5, 6, 7], np.uint64)}, "target items: each"),
        ({"sources": FILMS[:2]}, "3 rows for 2"),
        ({"places": np.full((3, 2), 4, np.int32)}, "-1 to 3"),
        ({"places": np.full((3, 1), 0, np.int32)}, "one shape"),
        ({"similarities": np.full((3, 2), np.nan, np.float32)}, "-1 to 1"),
        ({"similarities": np.full((3, 2), 1.5, np.float32)}, "-1 to 1"),
    ],
)
def test_a_table_that_does_not_fit_together_is_refused(change, words):
    table = links()
    fields = ("sources", "targets", "places", "similarities")
    values = {name: getattr(table, name) for name in fields} | change
    with pytest.raises(ValueError, match=words):
        DomainLinks(**values)


def test_each_rated_item_becomes_the_one_most_like_it():
    ego = alter_ego([30, 99, 20], [5, 1, 2], links())
    assert ego.items.tolist() == [6]  # 99 is no film, and nothing is like film 20
    assert ego.ratings.tolist() == [5]
    assert ego.because.tolist() == [30]


def test_two_items_with_one_replacement_become_their_weighted_mean():
    ego = alter_ego([10, 30], [1, 5], links())
    assert ego.items.tolist() == [6]
    assert ego.ratings[0] == pytest.approx((0.9 * 5 + 0.5 * 1) / 1.4)
    assert ego.weights[0] == pytest.approx(1.4)
    assert ego.because.tolist() == [30]


def test_a_rating_is_carried_from_middle_to_middle():
    middles = Middles(np.array([4.0, 3, 3]), np.array([3.0, 2, 3, 4.5]))
    assert alter_ego([30], [5], links(), middles).ratings.tolist() == [3]
    assert alter_ego([30], [1], links(), middles).ratings.tolist() == [-1]


def test_an_item_may_become_several():
    ego = alter_ego([10, 30], [1, 5], links(), spread=2)
    assert ego.items.tolist() == [6, 7, 8]
    assert ego.ratings.tolist() == pytest.approx([(0.5 * 1 + 0.9 * 5) / 1.4, 1, 5])
    assert ego.because.tolist() == [30, 10, 30]
    assert alter_ego([10, 20], [1, 5], links(), spread=99).items.tolist() == [6, 7]
    with pytest.raises(ValueError, match="0 replacements"):
        alter_ego([10], [1], links(), spread=0)


def test_drawn_replacements_are_taken_as_they_are():
    ego = alter_ego([30, 10, 20], [5, 3, 1], links(), replacements=[3, 0, 3])
    assert ego.items.tolist() == [8, 5]
    assert ego.ratings.tolist() == [3, 3]
    assert ego.weights.tolist() == [2, 1]
    assert ego.because.tolist() == [30, 10]


def test_a_domain_with_no_bridge_gives_an_empty_profile_and_means():
    bare = strongest(FILMS, BOOKS, np.zeros((3, 4)), 2)
    ego = alter_ego([30, 10], [5, 4], bare)
    assert not len(ego.items)
    means = np.array([3.0, 4, 2, 5])
    assert predicted(ego, np.zeros((0, 4)), means).tolist() == means.tolist()
    assert not len(alter_ego([], [], links()).items)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1, 2], [3.0]), "2 items with 1 ratings"),
        (([1], [np.nan]), "finite"),
        (([1], [3.0], None, [4]), "4 targets"),
        (([1], [3.0], None, [1, 2]), "2 replacements of 1"),
    ],
)
def test_a_history_that_is_none_is_refused(arguments, words):
    items, ratings, *rest = arguments
    with pytest.raises(ValueError, match=words):
        alter_ego(items, ratings, links(), *rest)


def test_predictions_are_the_formula_and_never_a_number_that_is_none():
    within = strongest(BOOKS, BOOKS, np.array([[0, 0.5, 0.25, 0]] * 4), 3)
    ego = alter_ego([30], [5], links(1))
    means = np.array([3.0, 4, 2, 5])
    dense = within.dense(within.rows(ego.items))
    offset = 1 / 4
    wanted = [3 + offset, 4 + offset, 2 + offset + 0.25 * (1 - offset) / 1.25, 5]
    assert predicted(ego, dense, means).tolist() == pytest.approx(wanted)
    assert np.isfinite(predicted(ego, dense, means, shrink=0, prior=0)).all()
    assert predicted(ego, dense, means, offset=-1.0)[3] == 4
    with pytest.raises(ValueError, match="profile by targets"):
        predicted(ego, dense[:, :2], means)


def test_places_of_nothing_are_none():
    assert slots_of(BOOKS[:0], [5]).tolist() == [-1]
    assert slots_of(FILMS, [20, 7, 30]).tolist() == [2, -1, 0]
