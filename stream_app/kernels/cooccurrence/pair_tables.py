"""Adding to the tables of pairs, row by row.

A counted rating waits with the list that it found: a part of a window, of which some entries are
those of the visit before (`visits.py`) and some of the last came one by one.

    pairs[i, j]   += s_i s_j                     for each (j, s_j) of the list
    between[i, j] += 1                           for each entry j of the visit before
    within[i, j]  += decay[distance - 1]         for its last `singles` entries, the newest at
                                                 distance 1

`add_waiting` sorts the ratings by slot. Those of one slot are summed up in 16 bits, in one row that
stays in the first cache and needs no look at carries: at most 291 products, of 15 * 15 each for a
cell, stay below 2^16. Then the row of the table takes the sums, many cells at a time. Where the
lists are few or short, and for `within`, entries are added to the table one by one. Sums that stop
at a limit do not depend on the order.

A sum lies in two tables, its lower and its upper 16 bits, and stays at 2^32 - 1 once it is there.
The upper one is written once in 2^16, so the row in use takes half of the cache and a checkpoint
half of the pages.

tables (H, H) uint16, (0, 0) for `between` and `within` where visits are not kept;  window (at most
2^18,) uint16;  slots (n,) int32 and waiting (n,) uint64, the ratings that wait;  tally (H + 1,)
int32 and work (n,) uint64, scratch;  sums (H,) uint16, zero between two calls.

    waiting = start | length | present | before | singles | weight      18, 13, 11, 11, 6, 4 bits

start, length: of the list in the window. present: entries behind those of the visit before. singles
is 0 where nothing is added to `within`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.cooccurrence.device_lists import WEIGHT_BITS, WEIGHT_MASK
from stream_app.kernels.machine.dirty_pages import touch_bytes

HALF = 1 << 16
MOST_WINDOW = 1 << 18  # entries
MOST_SUMMED = (HALF - 1) // WEIGHT_MASK**2  # ratings
_WEIGHT, _HALF = np.uint64(WEIGHT_MASK), np.uint64(HALF)
_TOGETHER = np.uint64(64)  # cells
_START, _LENGTH, _PRESENT, _BEFORE, _SINGLES = (np.uint64(n) for n in (45, 32, 21, 10, 4))
_LENGTH_MASK, _VISIT_MASK, _SINGLES_MASK = (np.uint64((1 << n) - 1) for n in (13, 11, 6))


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
def _add_between(low, high, pages, slot, window, start, stop):
    row = low[slot]
    for k in range(np.uint64(start), np.uint64(stop)):
        entry = np.uint64(window[k])
        j = entry >> np.uint64(WEIGHT_BITS)
        total = np.uint64(row[j]) + np.uint64(entry != 0)
        if total >= np.uint64(HALF):
            total = _carried(high, pages, slot, j, total)
        row[j] = np.uint16(total)


@njit(cache=True, nogil=True, inline="always")
def _add_within(low, high, pages, slot, window, stop, singles, decay):
    row = low[slot]
    for distance in range(1, singles + 1):
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
def _counted(sums, window, start, stop):
    for k in range(np.uint64(start), np.uint64(stop)):
        entry = np.uint64(window[k])
        sums[entry >> np.uint64(WEIGHT_BITS)] += np.uint16(entry != 0)


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
def wait(slots, waiting, queued, slot, start, stop, present, before, singles, weight):
    """Let a rating wait as number `queued`."""
    slots[queued] = slot
    waiting[queued] = (
        np.uint64(start) << _START
        | np.uint64(stop - start) << _LENGTH
        | np.uint64(present) << _PRESENT
        | np.uint64(before) << _BEFORE
        | np.uint64(singles) << _SINGLES
        | np.uint64(weight)
    )


@njit(cache=True, nogil=True, inline="always")
def _sort(slots, waiting, count, tally, work):
    """Write the first `count` waiting ratings into `work`, by slot; those of a slot end at
    tally[slot]."""
    tally[:] = 0
    for n in range(count):
        tally[slots[n] + 1] += 1
    for slot in range(1, tally.size):
        tally[slot] += tally[slot - 1]
    for n in range(count):
        slot = slots[n]
        work[tally[slot]] = waiting[n]
        tally[slot] += 1


@njit(cache=True, nogil=True, inline="always")
def _opened(each):
    """Return where the list, the visit before and the present one begin, the end of the list, and
    the weight of a waiting rating."""
    start = each >> _START
    stop = start + (each >> _LENGTH & _LENGTH_MASK)
    present = stop - (each >> _PRESENT & _VISIT_MASK)
    before = present - (each >> _BEFORE & _VISIT_MASK)
    return start, before, present, stop, each & _WEIGHT


@njit(cache=True, nogil=True, error_model="numpy")
def _add_products(low, high, pages, high_pages, slot, window, ratings, entries, sums):
    """Add waiting ratings (n,) of one slot, with so many entries, to the row of `pairs`."""
    _touch_row(pages, low, slot)
    if entries << np.uint64(3) < np.uint64(sums.size):
        for n in range(ratings.size):
            start, _, _, stop, weight = _opened(ratings[n])
            _add_pairs(low, high, high_pages, slot, window, start, stop, weight)
    else:
        for n in range(ratings.size):
            start, _, _, stop, weight = _opened(ratings[n])
            _summed(sums, window, start, stop, weight)
        _take_sums(low, high, high_pages, slot, sums)


@njit(cache=True, nogil=True, error_model="numpy")
def _add_followers(low, high, pages, high_pages, slot, window, ratings, entries, sums):
    """Add waiting ratings (n,) of one slot, with so many entries of visits before, to the row of
    `between`."""
    _touch_row(pages, low, slot)
    if entries << np.uint64(3) < np.uint64(sums.size):
        for n in range(ratings.size):
            _, start, stop, _, _ = _opened(ratings[n])
            _add_between(low, high, high_pages, slot, window, start, stop)
    else:
        for n in range(ratings.size):
            _, start, stop, _, _ = _opened(ratings[n])
            _counted(sums, window, start, stop)
        _take_sums(low, high, high_pages, slot, sums)


@njit(cache=True, nogil=True, error_model="numpy")
def _add_singles(low, high, pages, high_pages, slot, window, ratings, decay):
    """Add waiting ratings (n,) of one slot to the row of `within`."""
    _touch_row(pages, low, slot)
    for n in range(ratings.size):
        stop, singles = _opened(ratings[n])[3], ratings[n] >> _SINGLES & _SINGLES_MASK
        _add_within(low, high, high_pages, slot, window, np.int64(stop), np.int64(singles), decay)


@njit(cache=True, nogil=True, error_model="numpy")
def add_waiting(
    pairs, pairs_high, between, between_high, within, within_high, decay,
    pairs_pages, pairs_high_pages, between_pages, between_high_pages,
    within_pages, within_high_pages,
    window, slots, waiting, count, tally, work, sums,
):  # fmt: skip
    """Add the first `count` waiting ratings to the tables, by slot."""
    _sort(slots, waiting, count, tally, work)
    first = np.int64(0)
    for slot in range(sums.size):
        while first < tally[slot]:
            part = min(np.int64(tally[slot]), first + MOST_SUMMED)
            entries, earlier, singles = np.uint64(0), np.uint64(0), np.uint64(0)
            for n in range(first, part):
                entries += work[n] >> _LENGTH & _LENGTH_MASK
                earlier += work[n] >> _BEFORE & _VISIT_MASK
                singles |= work[n] >> _SINGLES & _SINGLES_MASK
            ratings = work[first:part]
            _add_products(
                pairs, pairs_high, pairs_pages, pairs_high_pages, slot, window, ratings, entries,
                sums,
            )  # fmt: skip
            if earlier:
                _add_followers(
                    between, between_high, between_pages, between_high_pages, slot, window,
                    ratings, earlier, sums,
                )  # fmt: skip
            if singles:
                _add_singles(
                    within, within_high, within_pages, within_high_pages, slot, window, ratings,
                    decay,
                )  # fmt: skip
            first = part


@njit(cache=True, nogil=True)
def clear_slots(table, pages, slots):
    """Clear the rows and columns of slots (n,), and mark the pages of what was not 0."""
    for i in range(len(table)):
        for n in range(slots.size):
            if table[i, slots[n]]:
                touch_bytes(pages, 2 * (i * len(table) + slots[n]), 2)
                table[i, slots[n]] = 0
    for n in range(slots.size):
        if table[slots[n]].any():
            _touch_row(pages, table, slots[n])
            table[slots[n]] = 0
