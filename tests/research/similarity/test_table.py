"""The co-rating table of a whole file against loops over co-raters."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from research.similarity import table
from research.similarity.table import slots_of
from tests.naive import co_ratings_table as naive
from tests.research.similarity.ratings import drawn, tabled


@pytest.mark.parametrize(("users", "items"), [(1, 1), (1, 5), (30, 1), (40, 12)])
@pytest.mark.parametrize("block", [1, 7, 1_024])
def test_the_table_equals_loops_over_co_raters(monkeypatch, users, items, block):
    monkeypatch.setattr(table, "USERS_A_BLOCK", block)
    stars = drawn(np.random.default_rng(users * 100 + items), users, items)
    found = tabled(stars)
    cells = {(u, 100 + j): stars[u, j] for u, j in zip(*np.nonzero(~np.isnan(stars)), strict=True)}
    counts, differences = naive.table(cells, [100 + j for j in range(items)])
    assert (found.counts == counts).all()
    assert (found.differences == differences).all()
    assert (found.sums == np.nansum(stars, axis=0)).all()
    assert (found.raters == (~np.isnan(stars)).sum(axis=0)).all()


def test_the_order_of_ratings_and_of_items_does_not_count():
    random = np.random.default_rng(5)
    users, items = random.integers(0, 30, 200), random.integers(0, 9, 200)
    _, first = np.unique(users * 9 + items, return_index=True)
    users, items = users[first], items[first]
    stars = random.integers(1, 6, len(users)).astype(float)
    straight = table.from_ratings(users, items, stars, np.arange(9))
    by_chance, order = random.permutation(len(users)), random.permutation(9)
    mixed = table.from_ratings(users[by_chance], items[by_chance], stars[by_chance], order)
    for name in ("counts", "differences"):
        assert (getattr(mixed, name) == getattr(straight, name)[np.ix_(order, order)]).all()


def test_of_two_ratings_of_a_user_for_an_item_the_first_counts():
    found = table.from_ratings([4, 4, 4], [7, 8, 7], [5, 2, 1], [7, 8])
    assert found.counts.tolist() == [[1, 1], [1, 1]]
    assert found.differences.tolist() == [[0, 3], [-3, 0]]


def test_items_outside_the_table_are_left_out_and_have_no_slot():
    found = table.from_ratings([1, 1, 2], [7, 3, 3], [5, 4, 2], [9, 7])
    assert found.counts.tolist() == [[0, 0], [0, 1]]
    assert slots_of(found.keys, [7, 3, 9]).tolist() == [1, -1, 0]
    assert slots_of(found.keys, [2**64 - 1]).tolist() == [-1]


def test_a_table_without_items_or_without_ratings_is_empty():
    assert len(table.from_ratings([1], [2], [3], [])) == 0
    assert slots_of(table.from_ratings([1], [2], [3], []).keys, [4]).tolist() == [-1]
    assert not table.from_ratings([], [], [], [5, 6]).counts.any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], [3], [4], [3]), "equally many"),
        (([1], [3], [np.nan], [3]), "finite"),
        (([1], [3], [np.inf], [3]), "finite"),
        (([1], [3], [4], [3, 3]), "once"),
    ],
)
def test_a_file_that_is_no_table_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        table.from_ratings(*arguments)


@pytest.mark.parametrize("name", ["counts", "differences", "sums"])
def test_arrays_that_do_not_fit_together_are_refused(name):
    found = tabled(drawn(np.random.default_rng(1), 4, 3))
    with pytest.raises(ValueError, match=name):
        dataclasses.replace(found, **{name: np.zeros((2, 2), np.float32)})
