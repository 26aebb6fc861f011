"""Counts per item of a batch, so that sketches are updated once per item, not once per rating.

Counts are linear: adding an item n times and adding it once with the count n leave the same bytes.
"""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def count_items(rows, counts, distinct):
    """Count each row in `counts` (all zero before) and write the distinct ones; return how many."""
    found = 0
    for i in range(rows.shape[0]):
        row = rows[i]
        if counts[row] == 0:
            distinct[found] = row
            found += 1
        counts[row] += 1
    return found
