"""Adding to the tables of pairs, row by row.

Each counted rating waits as (slot, start, stop, kind): the slot of its item, the part of a window
that holds the list which it found, and its weight, plus `ALONE` where its record holds no other
rating. `add_waiting` adds them by slot, so that a row is in the first cache while all its ratings
are added; sums that stop at a limit do not depend on the order.

    pairs[i, j]   += s_i s_j                     for each (j, s_j) of the list
    ordered[i, j] += decay[distance - 1]         for its last entries, the newest at distance 1

A sum lies in two tables, its lower and its upper 16 bits, and stays at 2^32 - 1 once it is there.
The upper one is written once in 2^16, so the row in use takes half of the cache and a checkpoint
half of the pages.

tables (H, H) uint16, (0, 0) for `ordered` where order is not kept;  window (w,) uint16;  waiting
(n, 4) int32;  tally (H + 1,) and order (n,) int32, scratch.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.cooccurrence.device_lists import WEIGHT_BITS, WEIGHT_MASK
from stream_app.kernels.machine.dirty_pages import touch_bytes

HALF = 1 << 16
ALONE = 16
SLOT, START, STOP, KIND = range(4)
ORDERED = 2  # place of `ordered` among the arguments of `add_waiting`


@njit(cache=True, nogil=True, inline="always")
def _touch_row(pages, table, row):
    size = 2 * table.shape[1]
    touch_bytes(pages, row * size, size)


@njit(cache=True, nogil=True, inline="always")
def _carried(high, pages, i, j, total):
    """Add 2^16 to the upper half of (i, j); return the lower half, all ones at the limit."""
    if high[i, j] == HALF - 1:
        return np.uint64(HALF - 1)
    touch_bytes(pages, 2 * (np.int64(i) * high.shape[1] + np.int64(j)), 2)
    high[i, j] += np.uint16(1)
    return total - np.uint64(HALF)


@njit(cache=True, nogil=True, inline="always")
def _add_pairs(low, high, pages, slot, window, start, stop, weight):
    # Unsigned places need no check for a count from the end: two thirds of the time.
    row = low[slot]
    for k in range(np.uint64(start), np.uint64(stop)):
        entry = np.uint64(window[k])
        j = entry >> np.uint64(WEIGHT_BITS)
        total = np.uint64(row[j]) + weight * (entry & np.uint64(WEIGHT_MASK))
        if total >= np.uint64(HALF):
            total = _carried(high, pages, slot, j, total)
        row[j] = np.uint16(total)


@njit(cache=True, nogil=True, inline="always")
def _add_ordered(low, high, pages, slot, window, start, stop, decay):
    row = low[slot]
    for distance in range(1, min(decay.size, stop - start) + 1):
        entry = np.uint64(window[stop - distance])
        if entry:
            j = entry >> np.uint64(WEIGHT_BITS)
            total = np.uint64(row[j]) + np.uint64(decay[distance - 1])
            if total >= np.uint64(HALF):
                total = _carried(high, pages, slot, j, total)
            row[j] = np.uint16(total)


@njit(cache=True, nogil=True, error_model="numpy")
def add_waiting(
    pairs, pairs_high, ordered, ordered_high, decay,
    pairs_pages, pairs_high_pages, ordered_pages, ordered_high_pages,
    window, waiting, count, tally, order,
):  # fmt: skip
    """Add the first `count` waiting ratings to the tables, by slot."""
    tally[:] = 0
    for n in range(count):
        tally[waiting[n, SLOT] + 1] += 1
    for slot in range(1, tally.size):
        tally[slot] += tally[slot - 1]
    for n in range(count):
        slot = waiting[n, SLOT]
        order[tally[slot]] = n
        tally[slot] += 1
    for k in range(count):
        n = order[k]
        slot, start, stop = np.int64(waiting[n, SLOT]), waiting[n, START], waiting[n, STOP]
        weight = np.uint64(waiting[n, KIND] & WEIGHT_MASK)
        _touch_row(pairs_pages, pairs, slot)
        _add_pairs(pairs, pairs_high, pairs_high_pages, slot, window, start, stop, weight)
        if waiting[n, KIND] & ALONE:
            _touch_row(ordered_pages, ordered, slot)
            _add_ordered(
                ordered, ordered_high, ordered_high_pages, slot, window, start, stop, decay
            )
