"""Adding to the tables of pairs, row by row.

Each counted rating waits as (slot, start, stop, kind): the slot of its item, the part of a window
that holds the list which it found, and its weight, plus `ALONE` where its record holds no other
rating. `add_waiting` sorts them by slot. The ratings of one slot are summed up in 16 bits, in one
row that stays in the first cache and needs no look at carries: at most 291 of them, of 15 * 15 each
for a cell, stay below 2^16. Then the row of the table takes the sums, many cells at a time. Where
the lists are few or short, their entries are added to the table one by one. Sums that stop at a
limit do not depend on the order.

    pairs[i, j]   += s_i s_j                     for each (j, s_j) of the list
    ordered[i, j] += decay[distance - 1]         for its last entries, the newest at distance 1

A sum lies in two tables, its lower and its upper 16 bits, and stays at 2^32 - 1 once it is there.
The upper one is written once in 2^16, so the row in use takes half of the cache and a checkpoint
half of the pages.

tables (H, H) uint16, (0, 0) for `ordered` where order is not kept;  window (w,) uint16;  waiting
(n, 4) int32;  tally (H + 1,) int32 and work (n,) uint64, scratch;  sums (H,) uint16, zero between
two calls.

    work = start << 32 | (stop - start) << 8 | kind         a waiting rating, in the order of slots
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.cooccurrence.device_lists import WEIGHT_BITS, WEIGHT_MASK
from stream_app.kernels.machine.dirty_pages import touch_bytes

HALF = 1 << 16
ALONE = 16
SLOT, START, STOP, KIND = range(4)
MOST_SUMMED = (HALF - 1) // WEIGHT_MASK**2  # ratings
_WEIGHT, _HALF = np.uint64(WEIGHT_MASK), np.uint64(HALF)
_TOGETHER = np.uint64(64)  # cells
_START_BITS, _KIND_BITS = np.uint64(32), np.uint64(8)
_LENGTH_MASK, _KIND_MASK = np.uint64((1 << 24) - 1), np.uint64((1 << 8) - 1)
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


@njit(cache=True, nogil=True, inline="always")
def _summed(sums, window, start, stop, weight):
    for k in range(np.uint64(start), np.uint64(stop)):
        entry = np.uint64(window[k])
        sums[entry >> np.uint64(WEIGHT_BITS)] += np.uint16(weight * (entry & _WEIGHT))


@njit(cache=True, nogil=True, inline="always")
def _take_sums(low, high, pages, slot, sums):
    """Add the sums to the row of a slot, and clear them; carries are looked for in the few cells
    where one was seen."""
    row, size = low[slot], np.uint64(sums.size)
    first = np.uint64(0)
    while first < size:
        last = min(first + _TOGETHER, size)
        carries = np.uint16(0)
        for j in range(first, last):
            total = np.uint16(row[j] + sums[j])
            carries |= np.uint16(total < sums[j])
            row[j] = total
        if carries:
            for j in range(first, last):
                if row[j] < sums[j]:
                    row[j] = np.uint16(_carried(high, pages, slot, j, np.uint64(row[j]) + _HALF))
        first = last
    sums[:] = 0


@njit(cache=True, nogil=True, inline="always")
def _sort(waiting, count, tally, work):
    """Write the first `count` waiting ratings into `work`, by slot; those of a slot end at
    tally[slot]."""
    tally[:] = 0
    for n in range(count):
        tally[waiting[n, SLOT] + 1] += 1
    for slot in range(1, tally.size):
        tally[slot] += tally[slot - 1]
    for n in range(count):
        slot, start = waiting[n, SLOT], np.uint64(waiting[n, START])
        length = np.uint64(waiting[n, STOP]) - start
        kind = np.uint64(waiting[n, KIND])
        work[tally[slot]] = start << _START_BITS | length << _KIND_BITS | kind
        tally[slot] += 1


@njit(cache=True, nogil=True, inline="always")
def _opened(each):
    """Return start, stop and kind of a waiting rating."""
    start = each >> _START_BITS
    return start, start + (each >> _KIND_BITS & _LENGTH_MASK), each & _KIND_MASK


@njit(cache=True, nogil=True, error_model="numpy")
def add_waiting(
    pairs, pairs_high, ordered, ordered_high, decay,
    pairs_pages, pairs_high_pages, ordered_pages, ordered_high_pages,
    window, waiting, count, tally, work, sums,
):  # fmt: skip
    """Add the first `count` waiting ratings to the tables, by slot."""
    _sort(waiting, count, tally, work)
    first = np.int64(0)
    for slot in range(sums.size):
        while first < tally[slot]:
            part, entries = min(np.int64(tally[slot]), first + MOST_SUMMED), np.uint64(0)
            for n in range(first, part):
                entries += work[n] >> _KIND_BITS & _LENGTH_MASK
            _touch_row(pairs_pages, pairs, slot)
            few = entries << np.uint64(3) < np.uint64(sums.size)
            for n in range(first, part):
                start, stop, kind = _opened(work[n])
                if few:
                    _add_pairs(
                        pairs, pairs_high, pairs_high_pages, slot, window, start, stop,
                        kind & _WEIGHT,
                    )  # fmt: skip
                else:
                    _summed(sums, window, start, stop, kind & _WEIGHT)
                if kind & np.uint64(ALONE):
                    _touch_row(ordered_pages, ordered, slot)
                    _add_ordered(
                        ordered, ordered_high, ordered_high_pages, slot, window,
                        np.int64(start), np.int64(stop), decay,
                    )  # fmt: skip
            if not few:
                _take_sums(pairs, pairs_high, pairs_high_pages, slot, sums)
            first = part
