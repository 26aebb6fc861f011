"""Pairs of items on one device: second moments, counted rating by rating.

A rating of item i with weight s_i, 1 .. 15, by a device whose list does not hold i:

    pairs[i, j]   += s_i s_j                      for each (j, s_j) of the device's list
    ordered[i, j] += decay[distance - 1]          for the last entries of the list, the newest at
                                                  distance 1, where a record holds this rating alone
    moments[i]    += (1, s_i, s_i^2)              reports, weights, squares
    list          += (i, s_i)

The row of the new item is written, a contiguous one, and readers add the transposed table. An item
that the list holds keeps its place and its pairs; its weight and its moments are replaced. A report
of weight 0 (one that means "missing") counts among the reports and nowhere else. Sums stay at 2^32
- 1 once they are there. A sum lies in two tables, its lower and its upper 16 bits: the upper one is
written once in 2^16, so the row in use takes half of the cache and a checkpoint half of the pages.

An item takes a free slot of the head with its first report, in the order of the log. Reports of
items without a slot are counted in `counts` alone.

head_rows (H,) int64, the item of each slot;  slots (n,) int16, the slot of each item or -1;
counts (n,) int64;  totals (2,) int64;  numbers (2,) int64, opened lists and ratings in arrival
order;  pairs, ordered (H, H) uint16 and the same again for the upper halves, (0, 0) for `ordered`
where order is not kept;  moments (H, 3)
int64;  window (>= 16 most + 1,) uint16, scratch.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.cooccurrence.device_lists import (
    BLOCK,
    ENTRIES,
    WEIGHT_BITS,
    WEIGHT_MASK,
    append,
    gather,
    opened,
    replace_entry,
)
from stream_app.kernels.machine.dirty_pages import PAGE_BITS, WORDS

REPORTS, WEIGHTS, SQUARES = range(3)
DEVICES, IN_ORDER = range(2)
BINS_PER_STAR = 5  # predictions are rounded to fifths of a star
HALF = 1 << 16
_SHORTS = np.int64(PAGE_BITS - 1)  # shifts the place of a uint16 to its page


@njit(cache=True, nogil=True, inline="always")
def _touch_row(pages, table, row):
    first = row * table.shape[1]
    pages[first >> _SHORTS] = 1
    pages[(first + table.shape[1] - 1) >> _SHORTS] = 1


@njit(cache=True, nogil=True, inline="always")
def _place(window, start, stop, first):
    """Return where window[start:stop] holds an entry of the slot `first >> 4`, or -1."""
    found = 0
    for k in range(start, stop):
        # An entry without weight is no entry: first ^ 0 - 1 is beyond 14, too.
        found |= np.uint16((window[k] ^ first) - np.uint16(1)) < WEIGHT_MASK
    if found:
        for k in range(start, stop):
            if np.uint16((window[k] ^ first) - np.uint16(1)) < WEIGHT_MASK:
                return k
    return -1


@njit(cache=True, nogil=True, inline="always")
def _carry(high, pages, i, j):
    """Add 2^16 to the sum of (i, j); return what is left below, all ones if it is at its limit."""
    if high[i, j] == HALF - 1:
        return HALF - 1
    high[i, j] += 1
    pages[(i * high.shape[1] + np.int64(j)) >> _SHORTS] = 1
    return 0


@njit(cache=True, nogil=True, inline="always")
def _add_pairs(low, high, pages, slot, window, start, stop, weight):
    row = low[slot]
    for k in range(start, stop):
        entry = np.int64(window[k])
        j = np.uint64(entry >> WEIGHT_BITS)
        total = np.int64(row[j]) + weight * (entry & WEIGHT_MASK)
        if total >= HALF:
            total = max(total - HALF, _carry(high, pages, slot, j))
        row[j] = total


@njit(cache=True, nogil=True, inline="always")
def _add_ordered(low, high, pages, slot, window, start, stop, decay):
    row = low[slot]
    for distance in range(1, min(decay.size, stop - start) + 1):
        entry = np.int64(window[stop - distance])
        if entry:
            j = np.uint64(entry >> WEIGHT_BITS)
            total = np.int64(row[j]) + decay[distance - 1]
            if total >= HALF:
                total = max(total - HALF, _carry(high, pages, slot, j))
            row[j] = total


@njit(cache=True, nogil=True, error_model="numpy")
def count_records(
    head_rows, slots, counts, totals, used,
    ends, blocks, links, block_count, most,
    pairs, pairs_high, ordered, ordered_high, moments, numbers, decay,
    counts_pages, ends_pages, blocks_pages, links_pages,
    pairs_pages, pairs_high_pages, ordered_pages, ordered_high_pages, window,
    devices, sizes, rows, channels, reports, predicted, skipped, starts, alphabets, weights,
):  # fmt: skip
    """Count records, each of one device, in order; return the new (used slots, blocks).

    devices, sizes (n,): row and number of ratings of each record. The columns (m,) describe its
    ratings; one that is `skipped` changes nothing. weights (R, bins) uint8: of a report's row, at
    the predicted rating.
    """
    stop_record = 0
    for r in range(devices.size):
        device = devices[r]
        first_rating, stop_record = stop_record, stop_record + sizes[r]
        before = block_count
        block_count = opened(ends, links, ends_pages, links_pages, block_count, device)
        numbers[DEVICES] += block_count - before
        start, stop = 0, gather(ends, blocks, links, device, window)
        for n in range(first_rating, stop_record):
            c = channels[n]
            if skipped[n] or reports[n] >= alphabets[c]:
                continue
            item = rows[n]
            totals[0] += 1
            counts[item] += 1
            counts_pages[item >> WORDS] = 1
            slot = np.int64(slots[item])
            if slot < 0:
                if used == head_rows.size:
                    continue
                slot = np.int64(used)
                used += 1
                head_rows[slot] = item
                slots[item] = slot
            level = np.int64((predicted[n] - 1.0) * BINS_PER_STAR + 0.5)
            weight = np.int64(weights[starts[c] + reports[n], level])
            moments[slot, REPORTS] += 1
            if weight == 0:
                continue
            first = np.uint16(slot << WEIGHT_BITS)
            entry = np.uint16(slot << WEIGHT_BITS | weight)
            place = _place(window, start, stop, first)
            if place >= 0:
                old = np.int64(window[place]) & WEIGHT_MASK
                moments[slot, WEIGHTS] += weight - old
                moments[slot, SQUARES] += weight * weight - old * old
                window[place] = entry
                replace_entry(ends, blocks, links, blocks_pages, device, place - start, entry)
                continue
            moments[slot, WEIGHTS] += weight
            moments[slot, SQUARES] += weight * weight
            _add_pairs(pairs, pairs_high, pairs_high_pages, slot, window, start, stop, weight)
            _touch_row(pairs_pages, pairs, slot)
            if sizes[r] == 1 and ordered.size:
                numbers[IN_ORDER] += 1
                _add_ordered(
                    ordered, ordered_high, ordered_high_pages, slot, window, start, stop, decay
                )
                _touch_row(ordered_pages, ordered, slot)
            entries = ends[device, ENTRIES]
            block_count = append(
                ends, blocks, links, ends_pages, blocks_pages, links_pages, block_count, most,
                device, entry,
            )  # fmt: skip
            if ends[device, ENTRIES] <= entries:
                start += BLOCK
            if stop == window.size:
                for k in range(start, stop):
                    window[k - start] = window[k]
                start, stop = 0, stop - start
            window[stop] = entry
            stop += 1
    return used, block_count
