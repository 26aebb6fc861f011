"""Count-min sketch of counts (Cormode, Muthukrishnan 2005; Balu 2016, section 2.3.2).

    add       C[j, h_j(key)] += count        for j = 0 .. k-1
    estimate  min_j C[j, h_j(key)]           never below the true count

cells C: (k, w) int64;  seeds: (k,) uint64, one independent-looking hash a row;  keys: (m,) uint64;
counts: (m,) int64, how often each key came.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.dirty_pages import touch_word
from stream_app.kernels.machine.hashing import bounded, salted


@njit(cache=True, nogil=True)
def add(cells, pages, seeds, keys, counts):
    """Add its count to the cell of every row for each key; mark the `pages` of the cells."""
    depth = cells.shape[0]
    width = np.uint64(cells.shape[1])
    for i in range(keys.size):
        for j in range(depth):
            cell = bounded(salted(keys[i], seeds[j]), width)
            touch_word(pages, np.uint64(j) * width + cell)
            cells[j, cell] += counts[i]


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
