"""Sums over the devices that have rated two items: co-raters, differences, products.

    for each two items j < k (slots) of a device's present list, with values v in fixed point,

        cells[k (k - 1) / 2 + j] += (2^40 + v_j - v_k,  v_j v_k)
        moments[j]               += (1,  v_j,  square_j,  variance_j)     for each item of the list

so the tables are a function of the lists, whatever has entered and left them: a rating adds its
pairs with the list that it finds, an entry that leaves takes its pairs out of the same cells, and
forgetting a device takes out all of its list. An item that the list holds keeps its place and takes
the new value. Slope One (Park and Acharya 2011, equation 3) and cosine (equation 7) need no more.

    entry = slot << 20 | (row + 1)      row: of a report in the table of values; 0: no entry

A record changes the list first: what enters with it is counted at its end, so that what also leaves
in it costs nothing (a backlog of 200 ratings on a list of 128: a third of the time).

The lists are those of `device_lists.py` with entries of 32 bits: where all `most` blocks are full,
the oldest 16 entries leave at once, before the new one enters.

The first word of a cell holds two sums, the co-raters above bit 40 and the difference below it, so
that a cell is in one line of the cache. `counted` takes them apart.

Bounds. |v| <= 2^15, |square| <= 2^30, |variance| <= 2^31 (`report_values.py` refuses others), and a
device is in a cell at most once. Only devices whose row is below MOST_DEVICES = 2^23 - 1 have a
list. So a difference is below 2^16 2^23 = 2^39, a count below 2^23, a product at most 2^53, a
moment at most 2^54: no sum reaches the next one's bits or the end of its word.

cells (H (H - 1) / 2, 2), moments (H, 4) and values (R, 3: v, square, variance) int64;  window, a
scratch (4, 16 most) int64: the entries of one list, their slots and values, and their slots again
where they are counted; -1: none.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.cooccurrence.device_lists import (
    BLOCK,
    RING,
    append,
    gather,
    opened,
    replace_entry,
)
from stream_app.kernels.machine.dirty_pages import touch_floats

ROW_BITS, COUNT_BITS = 20, 40
MOST_DEVICES = (1 << 23) - 1
RATERS, STARS, SQUARES, VARIANCES = range(4)
COUNTS, PRODUCTS = range(2)
_ONE = 1 << COUNT_BITS
_FLOATS = 4  # in a cell
_ENTRIES, _SLOTS, _VALUES, _COUNTED = range(4)
_ROW_MASK = (1 << ROW_BITS) - 1


def counted(cells):
    """Return co-raters, differences and products (n,) of cells (n, 2)."""
    words = cells[:, COUNTS]
    differences = words << (64 - COUNT_BITS) >> (64 - COUNT_BITS)
    return (words - differences) >> COUNT_BITS, differences, cells[:, PRODUCTS]


def co_raters_of(words):
    """Return the co-raters of first words of cells, of any shape."""
    return (words + (_ONE >> 1)) >> COUNT_BITS


@njit(cache=True, nogil=True, inline="always")
def _add_pairs(cells, pages, slot, window, first, stop, count, value, others):
    """Add (count, value - others v_k, value v_k) to the cells of `slot` with the counted entries k
    of window[first:stop]; the difference is the lower slot's value less the higher one's."""
    for k in range(first, stop):
        other = window[_COUNTED, k]
        if other < 0:
            continue
        # No branches: which slot is the lower one cannot be predicted.
        above = np.int64(other > slot)
        high, low, side = max(slot, other), min(slot, other), 2 * above - 1
        at = np.uint64((high * (high - 1) >> 1) + low)
        touch_floats(pages, at * np.uint64(_FLOATS), _FLOATS)
        cells[at, COUNTS] += count * _ONE + side * (value - others * window[_VALUES, k])
        cells[at, PRODUCTS] += value * window[_VALUES, k]


@njit(cache=True, nogil=True, inline="always")
def _add_moments(moments, values, slot, row, sign):
    moments[slot, RATERS] += sign
    for column in range(3):
        moments[slot, STARS + column] += sign * values[row, column]


@njit(cache=True, nogil=True, inline="always")
def _opened_window(ends, blocks, links, device, values, window):
    """Copy the list of a device into the window; return its number of entries."""
    held = gather(ends, blocks, links, device, window[_ENTRIES], 0)
    for k in range(held):
        _place(window, values, k, window[_ENTRIES, k])
        window[_COUNTED, k] = window[_SLOTS, k]
    return held


@njit(cache=True, nogil=True, inline="always")
def _place(window, values, k, entry):
    window[_ENTRIES, k] = entry
    window[_SLOTS, k] = entry >> ROW_BITS if entry else -1
    window[_VALUES, k] = values[(entry & _ROW_MASK) - 1, 0] if entry else 0


@njit(cache=True, nogil=True, inline="always")
def _take_out(cells, moments, pages, values, window, first, stop, held):
    """Take the counted entries first .. stop - 1 out of the sums, with their pairs with all later
    ones."""
    for k in range(first, stop):
        slot = window[_COUNTED, k]
        if slot >= 0:
            value = window[_VALUES, k]
            _add_pairs(cells, pages, slot, window, k + 1, held, -1, -value, -1)
            _add_moments(moments, values, slot, (window[_ENTRIES, k] & _ROW_MASK) - 1, -1)


@njit(cache=True, nogil=True, inline="always")
def _put_in(cells, moments, pages, values, window, held):
    """Add the entries that are not counted yet to the sums, with their pairs with all counted
    ones."""
    for k in range(held):
        slot = window[_SLOTS, k]
        if slot >= 0 and window[_COUNTED, k] < 0:
            _add_pairs(cells, pages, slot, window, 0, held, 1, window[_VALUES, k], 1)
            _add_moments(moments, values, slot, (window[_ENTRIES, k] & _ROW_MASK) - 1, 1)
            window[_COUNTED, k] = slot


@njit(cache=True, nogil=True, inline="always")
def _found(window, held, slot):
    """Return the place of a slot in the window, or -1."""
    found = False
    for k in range(held):
        found |= window[_SLOTS, k] == slot
    if found:
        for k in range(held):
            if window[_SLOTS, k] == slot:
                return k
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def count_co_ratings(
    slots, ends, blocks, links, free, block_count, most, most_devices, cells, moments, values,
    ends_pages, blocks_pages, links_pages, free_pages, cells_pages, window,
    devices, sizes, rows, channels, reports, skipped, starts, alphabets,
):  # fmt: skip
    """Count records, each of one device, in order; return the new number of blocks.

    slots (n,) int16: the slot of each item's row, -1 without one. devices, sizes (r,): row and
    number of ratings of each record. The columns (m,) describe its ratings; one that is `skipped`
    changes nothing, and neither does one of a device from row `most_devices` on. The caller marks
    `moments`.
    """
    stop_record = 0
    for r in range(devices.size):
        device, held = devices[r], -1
        first_rating, stop_record = stop_record, stop_record + sizes[r]
        for n in range(first_rating, stop_record):
            c = channels[n]
            if skipped[n] or reports[n] >= alphabets[c] or device >= most_devices:
                continue
            slot = np.int64(slots[rows[n]])
            if slot < 0:
                continue
            if held < 0:
                held = _opened_window(ends, blocks, links, device, values, window)
            row = np.int64(starts[c] + reports[n])
            entry = slot << ROW_BITS | (row + 1)
            k = _found(window, held, slot)
            if k >= 0:
                if window[_ENTRIES, k] != entry:
                    if window[_COUNTED, k] >= 0:
                        old = (window[_ENTRIES, k] & _ROW_MASK) - 1
                        _add_moments(moments, values, slot, old, -1)
                        _add_moments(moments, values, slot, row, 1)
                        window[_COUNTED, k] = -1
                        change = values[row, 0] - window[_VALUES, k]
                        _add_pairs(cells, cells_pages, slot, window, 0, held, 0, change, 0)
                        window[_COUNTED, k] = slot
                    _place(window, values, k, entry)
                    replace_entry(ends, blocks, links, blocks_pages, device, k, np.uint32(entry))
                continue
            if held == BLOCK * most:
                _take_out(cells, moments, cells_pages, values, window, 0, BLOCK, held)
                held -= BLOCK
                for k in range(held):
                    for column in range(4):
                        window[column, k] = window[column, k + BLOCK]
            _place(window, values, held, entry)
            window[_COUNTED, held] = -1
            held += 1
            if ends[device, RING] == 0:
                block_count = opened(
                    ends, links, free, ends_pages, links_pages, free_pages, block_count, device
                )  # fmt: skip
            block_count = append(
                ends, blocks, links, free, ends_pages, blocks_pages, links_pages, free_pages,
                block_count, most, device, np.uint32(entry),
            )  # fmt: skip
        if held > 0:
            _put_in(cells, moments, cells_pages, values, window, held)
    return block_count


@njit(cache=True, nogil=True, error_model="numpy")
def take_out_lists(
    ends, blocks, links, cells, moments, values, cells_pages, window, devices
):  # fmt: skip
    """Take the lists of devices (n,) out of the sums; the lists stay. The caller marks
    `moments`."""
    for n in range(devices.size):
        held = _opened_window(ends, blocks, links, devices[n], values, window)
        _take_out(cells, moments, cells_pages, values, window, 0, held, held)


@njit(cache=True, nogil=True, error_model="numpy")
def clear_slots(cells, cells_pages, gone):
    """Clear the cells of the slots that are `gone` (H,) bool."""
    for high in range(1, gone.size):
        start = high * (high - 1) >> 1
        for low in range(high):
            if gone[high] or gone[low]:
                touch_floats(cells_pages, (start + low) * _FLOATS, _FLOATS)
                cells[start + low, COUNTS] = 0
                cells[start + low, PRODUCTS] = 0
