"""Dirty pages: which 64 KiB pages of an array may have changed, for copies of the changes alone.

    page of byte b of an array = b >> PAGE_BITS        pages (ceil(bytes / PAGE_BYTES),) uint8

A writer to the array sets the byte of the page; the copier clears it after the copy. 1 means "may
have changed", 0 "has not changed". A scalar of a power
of two bytes never crosses two pages, because arrays are paged from their first byte; a row of
another size may, so the pages of both ends are marked.
"""

from __future__ import annotations

import numpy as np
from numba import njit

PAGE_BITS = 16
PAGE_BYTES = 1 << PAGE_BITS
FLOATS = np.int64(PAGE_BITS - 2)  # shifts the place of a float32 to its page
WORDS = np.int64(PAGE_BITS - 3)  # the place of a 64-bit word


@njit(cache=True, nogil=True, inline="always")
def touch_floats(pages, first, many):
    """Mark the page of `many` (at most a page of) consecutive floats of a flat array; `many` is a
    compile-time number."""
    pages[np.uint64(first >> FLOATS)] = 1
    if (1 << FLOATS) % many:
        pages[np.uint64((first + many - 1) >> FLOATS)] = 1


@njit(cache=True, nogil=True, inline="always")
def touch_float(pages, at):
    """Mark the page of one float, or of one uint32."""
    pages[np.uint64(np.int64(at) >> FLOATS)] = 1


@njit(cache=True, nogil=True, inline="always")
def touch_triple(pages, row, shift):
    """Mark the page or the two of a row of three numbers, `FLOATS` or `WORDS`."""
    first = np.int64(row) * 3
    pages[np.uint64(first >> shift)] = 1
    pages[np.uint64((first + 2) >> shift)] = 1
