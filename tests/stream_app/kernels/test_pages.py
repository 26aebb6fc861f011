"""Which page a write falls into, against the definition, at the borders of pages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.kernels.machine.dirty_pages import (
    FLOATS,
    FROZEN,
    PAGE_BYTES,
    WORDS,
    all_dirty,
    blank_map,
    touch_float,
    touch_floats,
    touch_triple,
)
from stream_app.wire import state_records as checkpoints

_PAGES = 6


def obvious(first: int, stop: int) -> list[int]:
    """Return the pages of bytes first .. stop-1."""
    return sorted({byte // PAGE_BYTES for byte in (*range(first, stop, 4), stop - 1)})


def marked(pages: np.ndarray) -> list[int]:
    return np.flatnonzero(pages).tolist()


def test_the_state_and_its_checkpoints_have_pages_of_one_size() -> None:
    assert PAGE_BYTES == checkpoints.PAGE_BYTES


@pytest.mark.parametrize("many", [1, 3, 8, 13, 32, 100, 256])
@given(page=st.integers(1, _PAGES - 2), off=st.integers(-300, 300))
def test_every_page_of_a_vector_is_marked_and_no_other(many: int, page: int, off: int) -> None:
    first = ((page * PAGE_BYTES // 4 + off) // many) * many
    pages = np.zeros(_PAGES, np.uint8)
    touch_floats(pages, np.int64(first), many)
    assert marked(pages) == obvious(4 * first, 4 * (first + many))


@pytest.mark.parametrize(("shift", "size"), [(FLOATS, 4), (WORDS, 8)])
@given(page=st.integers(1, _PAGES - 2), off=st.integers(-3, 3))
def test_both_ends_of_a_row_of_three_are_marked(shift: int, size: int, page: int, off: int) -> None:
    row = page * PAGE_BYTES // (3 * size) + off
    pages = np.zeros(_PAGES, np.uint8)
    touch_triple(pages, np.uint64(row), shift)
    assert marked(pages) == obvious(3 * size * row, 3 * size * (row + 1))


@given(page=st.integers(1, _PAGES - 2), off=st.integers(-3, 3))
def test_a_number_lies_in_one_page(page: int, off: int) -> None:
    at = page * PAGE_BYTES // 4 + off
    pages = np.zeros(_PAGES, np.uint8)
    touch_float(pages, np.uint64(at))
    assert marked(pages) == obvious(4 * at, 4 * at + 4)


def test_all_pages_are_dirty_only_once_each_of_those_asked_for_was_marked():
    pages = blank_map(3)
    assert not all_dirty(pages, 3)
    touch_float(pages, 0)
    touch_float(pages, PAGE_BYTES // 4)
    assert all_dirty(pages, 2)
    assert not all_dirty(pages, 3)
    pages[1] = FROZEN
    assert not all_dirty(pages, 2)
