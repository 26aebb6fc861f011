"""Links between domains, and profiles of a domain that was never rated."""

from __future__ import annotations

import numpy as np
import pytest

from research.xmap.alter_ego import (
    Middles,
    TargetLinks,
    alter_ego,
    carried,
    predicted,
    strongest,
)

SIMILAR = np.array([[0.1, 0.9, 0.0, 0.4], [0.0, 0.5, 0.2, 0.0], [0.0, -0.5, np.nan, 0.0]])


def links(most: int = 2) -> TargetLinks:
    return strongest(SIMILAR, most, first=3)


def rows(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def stars(*values: float) -> np.ndarray:
    return np.array(values, np.float64)


def test_a_row_holds_its_strongest_links_largest_first():
    assert links().places.tolist() == [[1, 3], [1, 2], [-1, -1]]
    assert links().similarities == pytest.approx(np.float32([[0.9, 0.4], [0.5, 0.2], [0, 0]]))
    assert links(99).places.shape == (3, 4)


def test_equal_links_stand_in_an_order_that_no_number_decides():
    row = strongest(np.full((1, 49), 0.5), 49, first=1).places[0]
    assert sorted(row) == list(range(49))
    assert list(row) != sorted(row)
    after = strongest(np.full((1, 48), 0.5), 49, first=2).places[0]
    assert (after + 1).tolist() == [place for place in row if place]


def test_an_item_has_no_link_to_itself():
    within = strongest(np.ones((4, 4)), 4, first=0, within=True)
    assert not (within.places == np.arange(4)[:, None]).any()


def test_dense_rows_are_the_kept_links():
    wanted = [[0, 0.9, 0, 0.4], [0] * 4, [0, 0.5, 0.2, 0]]
    assert links().dense(rows(0, 2, 1)) == pytest.approx(np.float32(wanted))


def test_each_rated_item_becomes_the_one_most_like_it():
    ego = alter_ego(rows(0, 2), stars(5, 2), links())
    assert ego.places.tolist() == [1]  # nothing is like item 2
    assert ego.ratings.tolist() == [5]


def test_two_items_with_one_replacement_become_their_weighted_mean():
    ego = alter_ego(rows(1, 0), stars(1, 5), links())
    assert ego.places.tolist() == [1]
    assert ego.ratings[0] == pytest.approx((0.9 * 5 + 0.5 * 1) / 1.4)
    assert ego.weights[0] == pytest.approx(1.4)


def test_a_rating_is_carried_from_middle_to_middle():
    middles = Middles(np.array([4.0, 3, 3]), np.array([3.0, 2, 3, 4.5]))
    assert alter_ego(rows(0), stars(5), links(), middles).ratings.tolist() == [3]
    assert alter_ego(rows(0), stars(1), links(), middles).ratings.tolist() == [-1]


def test_an_item_may_become_several():
    ego = alter_ego(rows(1, 0), stars(1, 5), links(), spread=2)
    assert ego.places.tolist() == [1, 2, 3]
    assert ego.ratings.tolist() == pytest.approx([(0.5 * 1 + 0.9 * 5) / 1.4, 1, 5])
    assert alter_ego(rows(1, 2), stars(1, 5), links(), spread=99).places.tolist() == [1, 2]


def test_drawn_replacements_are_taken_as_they_are():
    ego = carried(rows(0, 1, 2, 1), stars(5, 3, 1, 4), rows(3, 0, 3, -1), np.ones(4))
    assert ego.places.tolist() == [3, 0]
    assert ego.ratings.tolist() == [3, 3]
    assert ego.weights.tolist() == [2, 1]


def test_without_a_link_the_profile_is_empty_and_predictions_are_means():
    bare = strongest(np.zeros((3, 4)), 2, first=3)
    ego = alter_ego(rows(0, 1), stars(5, 4), bare)
    assert not len(ego.places)
    means = np.array([3.0, 4, 2, 5])
    assert predicted(ego, np.zeros((0, 4)), means).tolist() == means.tolist()
    assert not len(alter_ego(rows(), stars(), links()).places)


def test_predictions_are_the_formula_and_never_a_number_that_is_none():
    within = strongest(np.array([[0, 0.5, 0.25, 0]] * 4), 3, first=3, within=True)
    ego = alter_ego(rows(0), stars(5), links(1))
    means = np.array([3.0, 4, 2, 5])
    dense = within.dense(ego.places)
    offset = 1 / 4
    wanted = [3 + offset, 4 + offset, 2 + offset + 0.25 * (1 - offset) / 1.25, 5]
    assert predicted(ego, dense, means).tolist() == pytest.approx(wanted)
    assert np.isfinite(predicted(ego, dense, means, shrink=0, prior=0)).all()
    assert predicted(ego, dense, means, offset=-1.0)[3] == 4
