"""What a table of pairs holds beyond its base, as a list of cells, and adding such lists.

    cell       table - base, not below 0           each in two halves of 16 bits (`pair_tables.py`)
    list       of a row: gap, value | gap, value | ..   the columns passed over before each cell

gaps (c,) uint8, values (c,) uint16, the cell or LARGE, for the next of large (x,) uint32; a gap
wider than 255 holds cells of value 0. A list of the wire is within bounds (`wire/exchange.py`).
Sums stay at 2^32 - 1, and a base never passes its table.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.cooccurrence.pair_tables import HALF
from stream_app.kernels.machine.dirty_pages import touch_bytes

LARGE = HALF - 1
MOST_GAP = 255
_TOGETHER = 64  # cells
_MOST = np.int64(HALF) * HALF - 1
_LOW, _BITS = np.int64(HALF - 1), np.int64(16)


@njit(cache=True, nogil=True)
def differing_cells(low, high, base_low, base_high, row, used, columns):
    """Write the columns, of the first `used`, where a row differs from its base; return how
    many."""
    a, b, c, d = low[row], high[row], base_low[row], base_high[row]
    count = 0
    for first in range(0, used, _TOGETHER):
        last = min(first + _TOGETHER, used)
        seen = np.uint16(0)
        for j in range(first, last):
            seen |= (a[j] ^ c[j]) | (b[j] ^ d[j])
        if seen:
            for j in range(first, last):
                columns[count] = j
                count += (a[j] != c[j]) | (b[j] != d[j])
    return count


@njit(cache=True, nogil=True)
def list_cells(
    low, high, base_low, base_high, first, used, sizes, gaps, values, large, columns
):  # fmt: skip
    """Write the lists of rows first .. used - 1, as many whole ones as there is room for in gaps
    and large; sizes (used,): of each. Return (the row after the last, cells, large ones)."""
    cells, many = 0, 0
    for row in range(first, used):
        count = differing_cells(low, high, base_low, base_high, row, used, columns)
        most = count + used // (MOST_GAP + 1) + 1
        if cells + most > gaps.size or many + count > large.size:
            return row, cells, many
        begin, at = cells, np.int64(0)  # the column after the last cell
        for n in range(count):
            j = np.int64(columns[n])
            held = np.int64(high[row, j]) << _BITS | np.int64(low[row, j])
            value = held - (np.int64(base_high[row, j]) << _BITS | np.int64(base_low[row, j]))
            if value <= 0:
                continue
            while j - at > MOST_GAP:
                gaps[cells], values[cells] = MOST_GAP, 0
                cells += 1
                at += MOST_GAP + 1
            gaps[cells] = j - at
            values[cells] = min(value, LARGE)
            if value >= LARGE:
                large[many] = value
                many += 1
            cells += 1
            at = j + 1
        sizes[row] = cells - begin
    return used, cells, many


@njit(cache=True, nogil=True, inline="always")
def _put(low, high, pages, i, j, before, after):
    """Write a sum whose row of lower halves is marked."""
    low[i, j] = np.uint16(after & _LOW)
    if after >> _BITS != before >> _BITS:
        touch_bytes(pages, 2 * (i * high.shape[1] + j), 2)
        high[i, j] = np.uint16(after >> _BITS)


@njit(cache=True, nogil=True)
def add_cells(
    low, high, base_low, base_high, pages, high_pages, base_pages, base_high_pages,
    rows, sizes, gaps, values, large, own, foreign,
):  # fmt: skip
    """Add lists of rows (n,) to the base and, where they are `foreign`, to the table; own (h,)
    int64: the slot of each row and column, -1 for none."""
    size = 2 * low.shape[1]
    cells, many = 0, 0
    for r in range(rows.size):
        i, at = own[rows[r]], np.int64(-1)
        if i >= 0:
            touch_bytes(base_pages, i * size, size)
            if foreign:
                touch_bytes(pages, i * size, size)
        for n in range(cells, cells + np.int64(sizes[r])):
            at += np.int64(gaps[n]) + 1
            value = np.int64(values[n])
            if value == LARGE:
                value = np.int64(large[many])
                many += 1
            j = own[at]
            if i < 0 or j < 0 or value == 0:
                continue
            held = np.int64(high[i, j]) << _BITS | np.int64(low[i, j])
            if foreign:
                total = min(held + value, _MOST)
                _put(low, high, high_pages, i, j, held, total)
                held = total
            base = np.int64(base_high[i, j]) << _BITS | np.int64(base_low[i, j])
            _put(base_low, base_high, base_high_pages, i, j, base, min(base + value, held))
        cells += np.int64(sizes[r])
