"""The best of some thousand candidates, by counting: hardly a branch is guessed wrongly."""

from __future__ import annotations

import numpy as np
from numba import njit

_BINS = 512


@njit(cache=True, nogil=True)
def shortened(keys, rows, size, wanted):
    """Move the rows with the highest keys to the front, in their order: at least `wanted` of
    `size`, and what else is in the last of equal intervals; return how many."""
    low, high = keys[0], keys[0]
    for i in range(size):
        low, high = min(low, keys[i]), max(high, keys[i])
    shift, span = np.uint64(0), high - low
    while span >> shift >= np.uint64(_BINS):
        shift += np.uint64(1)
    counts = np.zeros(_BINS, np.int64)
    for i in range(size):
        counts[np.int64((keys[i] - low) >> shift)] += 1
    last, reached = _BINS, 0
    while reached < wanted:
        last -= 1
        reached += counts[last]
    least, kept = low + (np.uint64(last) << shift), 0
    for i in range(size):
        rows[kept] = rows[i]
        kept += np.int64(keys[i] >= least)
    return kept
