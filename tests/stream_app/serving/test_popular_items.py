"""Popular items that are kept in place, against sorting all items."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.serving.popular_items import PopularItems
from stream_app.state.known_items import Admission, KnownItems

RULE = Admission(threshold=2, width=16, waiting=4, steps=40)
ROWS = 9
BATCHES = st.lists(st.tuples(st.lists(st.integers(0, 14), max_size=25), st.booleans()), max_size=30)


def sorted_all(items: KnownItems, most: int) -> list[int]:
    return np.argsort(-items.reports, kind="stable")[:most].tolist()


def everything(rows):
    return np.ones(len(rows), np.bool_)


def report(items: KnownItems, keys: list[int]):
    """Enter and count reports of items, as a replica does, and return their rows."""
    rows = items.enter(np.array(keys, np.uint64))
    distinct, counts = np.unique(rows[rows >= 0], return_counts=True)
    items.count(distinct, counts)
    return rows


@settings(deadline=None, max_examples=200)
@given(most=st.integers(1, 12), batches=BATCHES)
def test_the_popular_items_are_those_of_a_sort_of_all(most, batches):
    items = KnownItems(ROWS, 1, RULE)
    popular = PopularItems(items, most)
    for cut, (keys, ends) in enumerate(batches):
        popular.note(report(items, keys))
        if ends:
            popular.replaced(items.end_round(np.empty(0, np.int16)))
        assert popular.best(ROWS, everything, cut).tolist() == sorted_all(items, most)


def test_a_list_goes_on_where_a_user_has_the_best_items():
    items = KnownItems(100)
    popular = PopularItems(items, 50)
    popular.note(report(items, [item for item in range(100) for _ in range(100 - item)]))
    found = popular.best(10, lambda rows: rows >= 30, 1)
    assert found.tolist() == list(range(30, 40))
    assert popular.best(10, lambda rows: rows >= 45, 1).tolist() == list(range(45, 50))


def test_popular_items_of_a_state_that_was_loaded_are_those_of_a_sort():
    items = KnownItems(1000)
    report(items, np.random.default_rng(1).integers(0, 1000, 5000).tolist())
    assert PopularItems(items, 20).best(20, everything, 1).tolist() == sorted_all(items, 20)


def test_few_rows_are_looked_at_for_a_batch_of_a_large_catalogue():
    """Only rows whose count reaches the last kept one are sorted in."""
    items = KnownItems(10_000)
    popular = PopularItems(items, 50)
    heavy = [item for item in range(100) for _ in range(200 + item)]
    popular.note(report(items, heavy))
    popular.best(10, everything, 1)
    popular.note(report(items, list(range(100, 10_000))))
    assert popular._news == 0
