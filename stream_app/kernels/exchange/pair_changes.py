"""A table of pairs as lists of its cells, and adding such lists, and counts, to another one.

    list    of a row: gap, value | gap, value | ..      the columns passed over before each cell

gaps (c,) uint8, values (c,) uint16, the cell or LARGE, for the next of large (x,) uint32; a gap
wider than 255 holds cells of value 0. A list of the wire is within bounds.
Cells are in two halves of 16 bits, and stay at 2^32 - 1 (`pair_tables.py`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.cooccurrence.pair_tables import HALF
from stream_app.kernels.cooccurrence.pair_updates import RECENT_ONE, REPORTS, TOTAL
from stream_app.kernels.machine.dirty_pages import touch_bytes, touch_word

LARGE = HALF - 1
MOST_GAP = 255
_TOGETHER = np.uint64(64)  # cells
_FULL = np.uint64(HALF) * np.uint64(HALF) - np.uint64(1)
_ONES, _LOW, _BITS = np.uint64(LARGE), np.uint64(HALF - 1), np.uint64(16)
_ONE = np.uint64(1)


@njit(cache=True, nogil=True)
def _places(low, high, used, columns):
    """Write the first `used` columns of a row that are not 0; return how many."""
    count, stop = 0, np.uint64(used)
    first = np.uint64(0)
    while first < stop:
        last = min(first + _TOGETHER, stop)
        seen = np.uint16(0)
        for j in range(first, last):
            seen |= low[j] | high[j]
        if seen:
            for j in range(first, last):
                columns[count] = j
                count += (low[j] | high[j]) != 0
        first = last
    return count


@njit(cache=True, nogil=True)
def list_cells(low, high, first, used, sizes, gaps, values, large, columns):
    """Write the lists of rows first .. used - 1, as many whole ones as there is room for in gaps
    and large; sizes (used,): of each. Return (the row after the last, cells, large ones)."""
    cells, many = 0, 0
    for row in range(first, used):
        count = _places(low[row], high[row], used, columns)
        if cells + count + used // (MOST_GAP + 1) > gaps.size or many + count > large.size:
            return row, cells, many
        begin, at = cells, np.int64(0)  # the column after the last cell
        for n in range(count):
            j = np.int64(columns[n])
            value = np.uint64(high[row, j]) << _BITS | np.uint64(low[row, j])
            while j - at > MOST_GAP:
                gaps[cells], values[cells] = MOST_GAP, 0
                cells += 1
                at += MOST_GAP + 1
            gaps[cells] = j - at
            values[cells] = min(value, _ONES)
            if value >= _ONES:
                large[many] = value
                many += 1
            cells += 1
            at = j + 1
        sizes[row] = cells - begin
    return used, cells, many


@njit(cache=True, nogil=True, inline="always")
def _add_moments(moments, slot, changes, n):
    for c in range(changes.shape[1]):
        moments[slot, c] += changes[n, c]


@njit(cache=True, nogil=True)
def add_counts(
    head_rows, slots, counts, recent, totals, used, base_counts,
    counts_pages, recent_pages, base_pages, moments, base_moments, rows, more, changes, foreign,
):  # fmt: skip
    """Add counts `more` (n,) and moments `changes` (n, 3) of items with these rows, -1 for one
    without, to the base and, where they are `foreign`, to the feed, where an item takes a free slot
    as with a report; return the new number of used slots."""
    for n in range(rows.size):
        row, count = rows[n], np.int64(more[n])
        if foreign:
            totals[TOTAL] += count
        if row < 0:
            continue
        touch_word(base_pages, row)
        if foreign:
            touch_word(counts_pages, row)
            touch_word(recent_pages, row)
            counts[row] += count
            recent[row] += RECENT_ONE * count
            if slots[row] < 0 and count and used < head_rows.size:
                slots[row] = used
                head_rows[used] = row
                used += 1
        base_counts[row] = min(base_counts[row] + count, counts[row])
        slot = np.int64(slots[row])
        if slot < 0:
            continue
        if foreign:
            _add_moments(moments, slot, changes, n)
        _add_moments(base_moments, slot, changes, n)
        # A slot that was cleared after its change was made has nothing that is not merged.
        if base_moments[slot, REPORTS] > moments[slot, REPORTS]:
            base_moments[slot] = moments[slot]
    return used


@njit(cache=True, nogil=True, inline="always")
def _put(low, high, pages, row, j, value):
    """Write a cell whose row of lower halves is marked."""
    low[j] = np.uint16(value & _LOW)
    upper = np.uint16(value >> _BITS)
    if upper != high[j]:
        touch_bytes(pages, 2 * (row * high.size + np.int64(j)), 2)
        high[j] = upper


@njit(cache=True, nogil=True, error_model="numpy")
def add_cells(low, high, pages, high_pages, rows, sizes, gaps, values, large, own):
    """Add lists of rows (n,) to a table; own (h,) int64: the slot of each row and column, -1 for
    none."""
    cell, many = np.uint64(0), np.uint64(0)
    for r in range(rows.size):
        i, stop, at = own[rows[r]], cell + np.uint64(sizes[r]), np.uint64(0)
        row, high_row = low[max(i, 0)], high[max(i, 0)]
        if i >= 0:
            touch_bytes(pages, 2 * i * row.size, 2 * row.size)
        while cell < stop:
            at += np.uint64(gaps[cell])
            value = np.uint64(values[cell])
            if value == _ONES:
                value = np.uint64(large[many])
                many += _ONE
            signed = own[at]
            j = np.uint64(signed)
            at += _ONE
            cell += _ONE
            if i < 0 or signed < 0:
                continue
            total = np.uint64(row[j]) + value
            if total < np.uint64(HALF):
                row[j] = np.uint16(total)
            else:
                total += np.uint64(high_row[j]) << _BITS
                _put(row, high_row, high_pages, i, j, min(total, _FULL))


@njit(cache=True, nogil=True, error_model="numpy")
def take_cells(low, high, pages, high_pages, rows, sizes, gaps, values, large, own):
    """Take lists out of a table, as far as it holds them, and write into values and large what was
    taken; otherwise as `add_cells`."""
    cell, many = np.uint64(0), np.uint64(0)
    for r in range(rows.size):
        i, stop, at = own[rows[r]], cell + np.uint64(sizes[r]), np.uint64(0)
        row, high_row = low[max(i, 0)], high[max(i, 0)]
        if i >= 0:
            touch_bytes(pages, 2 * i * row.size, 2 * row.size)
        while cell < stop:
            at += np.uint64(gaps[cell])
            value, signed = np.uint64(values[cell]), own[at]
            is_large = value == _ONES
            if is_large:
                value = np.uint64(large[many])
            j = np.uint64(max(signed, 0))
            if i >= 0 and signed >= 0 and not is_large and row[j] >= value:
                row[j] -= np.uint16(value)
                at += _ONE
                cell += _ONE
                continue
            held = np.uint64(high_row[j]) << _BITS | np.uint64(row[j])
            taken = min(value, held) if i >= 0 and signed >= 0 else np.uint64(0)
            if taken:
                _put(row, high_row, high_pages, i, j, held - taken)
            if is_large:
                large[many] = taken
                many += _ONE
            else:
                values[cell] = taken
            at += _ONE
            cell += _ONE
