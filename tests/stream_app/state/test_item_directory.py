"""The directory against a dictionary, on hostile keys."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.state.known_items import ItemDirectory

KEYS = st.one_of(st.integers(0, 5), st.integers(2**64 - 5, 2**64 - 1), st.integers(0, 2**64 - 1))


@settings(deadline=None)
@given(batches=st.lists(st.tuples(st.booleans(), st.lists(KEYS, max_size=40)), max_size=6))
def test_a_directory_is_a_dictionary_in_order_of_first_appearance(batches):
    directory, known = ItemDirectory(), {}
    for add, keys in batches:
        if add:
            for key in keys:
                known.setdefault(key, len(known))
        rows = directory.rows(np.array(keys, np.uint64), add=add)
        assert rows.tolist() == [known.get(key, -1) for key in keys]
    assert directory.keys.tolist() == list(known)
    assert len(directory) == len(known)


def test_growing_one_by_one_and_at_once_gives_the_same_rows():
    keys = np.random.default_rng(1).integers(0, 2**64, 5000, dtype=np.uint64)
    left, right = ItemDirectory(), ItemDirectory()
    left.rows(keys, add=True)
    for first in range(0, 5000, 7):
        right.rows(keys[first : first + 7], add=True)
    assert left.keys.tobytes() == right.keys.tobytes()
    assert (left.rows(keys) == right.rows(keys)).all()
