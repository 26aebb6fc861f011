"""Count-min sketch of counts (Cormode, Muthukrishnan 2005; Balu 2016, section 2.3.2).

    add       C[j, h_j(key)] += count        for j = 0 .. k-1
    estimate  min_j C[j, h_j(key)]           never below the true count

Places of TOGETHER keys are hashed first, row by row, in a loop that becomes vector instructions;
sums of integers do not depend on that order.

cells C: (k, w) int64;  seeds: (k,) uint64, one independent-looking hash a row;  keys: (m,) uint64;
counts: (m,) int64, how often each key came, or empty;  total: (1,) int64, the sum of all counts.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.dirty_pages import DIRTY, WORDS, touch_word
from stream_app.kernels.machine.scalars import bounded, salted

TOGETHER = 256  # keys; their places stay in the first-level cache
_DIRTY = np.uint8(DIRTY)


@njit(cache=True, nogil=True, inline="always")
def _all_dirty(pages, first, stop, most):
    """Return whether all pages of words first .. stop-1, of `most` pages or less, are dirty."""
    low, high = np.int64(first) >> WORDS, (np.int64(stop) - 1) >> WORDS
    dirty = high - low < most
    if dirty:
        for page in range(low, high + 1):
            dirty &= pages[np.uint64(page)] == _DIRTY
    return dirty


@njit(cache=True, nogil=True)
def add(cells, pages, total, total_pages, seeds, keys, counts):
    """Add its count to the cell of every row for each key, and to total (1,); mark the `pages` of
    both. Empty counts: every key came once."""
    width, flat = np.uint64(cells.shape[1]), cells.reshape(-1)
    at = np.empty(TOGETHER, np.uint64)
    if keys.size:
        touch_word(total_pages, 0)
    total[0] += counts.sum() if counts.size else keys.size
    for begin in range(0, keys.size, TOGETHER):
        some, times = keys[begin : begin + TOGETHER], counts[begin : begin + TOGETHER]
        for j in range(cells.shape[0]):
            first, seed = np.uint64(j) * width, seeds[j]
            for i in range(some.size):
                at[i] = first + bounded(salted(some[i], seed), width)
            if not _all_dirty(pages, first, first + width, some.size):
                for i in range(some.size):
                    touch_word(pages, at[i])
            if counts.size:
                for i in range(some.size):
                    flat[at[i]] += times[i]
            else:
                for i in range(some.size):
                    flat[at[i]] += 1


@njit(cache=True, nogil=True)
def estimate(cells, seeds, keys, counts):
    """Write the smallest of each key's cells into `counts`."""
    depth = cells.shape[0]
    width = np.uint64(cells.shape[1])
    for i in range(keys.size):
        least = cells[0, bounded(salted(keys[i], seeds[0]), width)]
        for j in range(1, depth):
            least = min(least, cells[j, bounded(salted(keys[i], seeds[j]), width)])
        counts[i] = least
