"""Pairs of items on one device: second moments, counted rating by rating.

A rating of item i with weight s_i, 1 .. 15, by a device whose list does not hold i:

    pairs[i, j]   += s_i s_j                      for each (j, s_j) of the device's list
    between[i, j] += 1                            for each entry j of the visit before the present
    within[i, j]  += decay[distance - 1]          for each of the last `singles` entries, the newest
                                                  at distance 1, where the record holds one rating
    moments[i]    += (1, s_i, s_i^2)              reports, weights, squares
    list          += (i, s_i)

`visits.py` says what a visit is. `between` takes each item of a visit with each of the visit before
it, however a visit is cut into records and in whatever order, as long as the list holds both visits
whole. `within` takes single ratings that follow each other within a visit, and no other.

The row of the new item is written, a contiguous one, and readers add the transposed table. An item
that the list holds keeps its place and its pairs; its weight and its moments are replaced, which
costs a copy of the list: a report that repeats its weight changes nothing but `reports`. A report
of weight 0 (one that means "missing") counts among the reports and nowhere else.

The list of the record's device is copied into a window and grows there; the sums are added later,
many ratings at a time (`pair_tables.py`). So what lies in a window does not change before. Ratings
wait from call to call, until there are many or the caller adds them.

An item takes a free slot of the head with its first report, in the order of the log. Reports of
items without a slot are counted in `counts` and `recent` alone.

head_rows (H,) int64, the item of each slot;  slots (n,) int16, the slot of each item or -1;
counts, recent (n,) int64, reports and decayed reports in units of 1/256;  totals (6,) int64, of the
head;  numbers (3,) int64, opened lists and ratings counted in `between` and `within`;  moments (H,
3) int64;  tables: the arguments of `add_waiting` up to the pages;  window (at least 48 most,)
uint16, slots_waiting, waiting and `scratch`, as `add_waiting` takes them;  pending (2,) int64: how
much of the window is in use, and how many ratings wait.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.cooccurrence.device_lists import (
    BLOCK,
    RING,
    WEIGHT_BITS,
    WEIGHT_MASK,
    append_many,
    gather,
    opened,
    replace_entry,
)
from stream_app.kernels.cooccurrence.pair_tables import add_waiting, wait
from stream_app.kernels.cooccurrence.visits import (
    BEFORE,
    PRESENT,
    SINGLES,
    begin_record,
    note_again,
    note_new,
)
from stream_app.kernels.machine.dirty_pages import touch_word

REPORTS, WEIGHTS, SQUARES = range(3)
DEVICES, BETWEEN, WITHIN = range(3)
# Totals of the head.
TOTAL, ELECTED, DECAYED, STEPS, NEWEST_DAY, ELECTED_DAY, CHANGES = range(7)
ENTRIES_USED, RATINGS = range(2)  # of what is pending
RECENT_ONE = 256  # a report in `recent`
BINS_PER_STAR = 5  # predictions are rounded to fifths of a star
ORDER_WINDOW = 50  # entries


@njit(cache=True, nogil=True, inline="always")
def _place(window, start, stop, first):
    """Return where window[start:stop] holds an entry of the slot `first >> 4`, or -1."""
    found = False
    for k in range(np.uint64(start), np.uint64(stop)):
        # An entry without weight is no entry: first ^ 0 - 1 is beyond 14, too.
        found |= np.uint16((window[k] ^ first) - np.uint16(1)) < WEIGHT_MASK
    if found:
        for k in range(start, stop):
            if np.uint16((window[k] ^ first) - np.uint16(1)) < WEIGHT_MASK:
                return k
    return -1


@njit(cache=True, nogil=True, inline="always")
def _copied(window, start, stop, at):
    """Copy window[start:stop] to `at` <= start or >= stop; return where the copy ends."""
    for k in range(stop - start):
        window[at + k] = window[start + k]
    return at + stop - start


@njit(cache=True, nogil=True, error_model="numpy")
def count_records(
    head_rows, slots, counts, recent, totals, used,
    ends, blocks, links, free, visits, likes, block_count, most,
    moments, numbers, tables, counts_pages, recent_pages,
    ends_pages, blocks_pages, links_pages, free_pages, visits_pages, likes_pages,
    window, slots_waiting, waiting, pending, scratch,
    devices, sizes, days, rows, channels, reports, predicted, skipped,
    starts, alphabets, weights, like_bits,
):  # fmt: skip
    """Count records, each of one device, in order; return the new (used slots, blocks).

    devices, sizes, days (n,): row, number of ratings and day of each record. The columns (m,)
    describe its ratings; one that is `skipped` changes nothing. weights (R, bins) uint8: of a
    report's row, at the predicted rating. like_bits (R,) uint8.
    """
    stop_record, stop, queued = 0, pending[ENTRIES_USED], pending[RATINGS]
    keeps_visits, room = len(visits) > 0, len(waiting)
    present = before = singles = 0
    for r in range(devices.size):
        device, alone = devices[r], sizes[r] == 1
        first_rating, stop_record = stop_record, stop_record + sizes[r]
        totals[NEWEST_DAY] = max(totals[NEWEST_DAY], days[r])
        numbers[DEVICES] += ends[device, RING] == 0
        block_count = opened(
            ends, links, free, ends_pages, links_pages, free_pages, block_count, device
        )  # fmt: skip
        if stop + 2 * BLOCK * most >= window.size:
            add_waiting(*tables, window, slots_waiting, waiting, queued, *scratch)
            stop, queued = 0, 0
        start = stop
        stop = gather(ends, blocks, links, device, window, start)
        kept = stop  # what follows in the window is not in the list yet
        if keeps_visits:
            begin_record(
                visits, visits_pages, likes_pages, device, stop - start, days[r], totals[STEPS]
            )
        for n in range(first_rating, stop_record):
            c = channels[n]
            if skipped[n] or reports[n] >= alphabets[c]:
                continue
            item = rows[n]
            totals[TOTAL] += 1
            touch_word(counts_pages, item)
            touch_word(recent_pages, item)
            counts[item] += 1
            recent[item] += RECENT_ONE
            slot = np.int64(slots[item])
            if slot < 0:
                if used == head_rows.size:
                    continue
                slot = np.int64(used)
                used += 1
                head_rows[slot] = item
                slots[item] = slot
            level = np.int64((predicted[n] - 1.0) * BINS_PER_STAR + 0.5)
            report = starts[c] + reports[n]
            weight = np.int64(weights[report, level])
            moments[slot, REPORTS] += 1
            if weight == 0:
                continue
            first = np.uint16(slot << WEIGHT_BITS)
            entry = np.uint16(slot << WEIGHT_BITS | weight)
            place = _place(window, start, stop, first)
            if place >= 0 and keeps_visits:
                note_again(visits, likes, device, stop - 1 - place, c, like_bits[report])
            if place >= 0 and window[place] == entry:
                continue
            if place >= 0 or queued == room or 2 * stop - start >= window.size:
                block_count = append_many(
                    ends, blocks, links, free, ends_pages, blocks_pages, links_pages, free_pages,
                    block_count, most, device, window, kept, stop,
                )  # fmt: skip
                kept = stop
            if queued == room or 2 * stop - start >= window.size:
                add_waiting(*tables, window, slots_waiting, waiting, queued, *scratch)
                place -= start if place >= 0 else 0
                kept, start, queued = _copied(window, start, stop, 0), 0, 0
                stop = kept
            if place >= 0:
                old = np.int64(window[place]) & WEIGHT_MASK
                moments[slot, WEIGHTS] += weight - old
                moments[slot, SQUARES] += weight * weight - old * old
                place -= start
                kept, start = _copied(window, start, stop, stop), stop
                stop = kept
                window[start + place] = entry
                replace_entry(ends, blocks, links, blocks_pages, device, place, entry)
                continue
            moments[slot, WEIGHTS] += weight
            moments[slot, SQUARES] += weight * weight
            if keeps_visits:
                present, before = visits[device, PRESENT], visits[device, BEFORE]
                singles = min(visits[device, SINGLES], ORDER_WINDOW) if alone else 0
                numbers[BETWEEN] += before > 0
                numbers[WITHIN] += singles > 0
            wait(
                slots_waiting, waiting, queued, slot, start, stop, present, before, singles, weight
            )
            queued += 1
            if stop - start == BLOCK * most:
                start += BLOCK
            window[stop] = entry
            stop += 1
            if keeps_visits:
                note_new(visits, likes, device, stop - start, c, like_bits[report], alone)
        block_count = append_many(
            ends, blocks, links, free, ends_pages, blocks_pages, links_pages, free_pages,
            block_count, most, device, window, kept, stop,
        )  # fmt: skip
    pending[ENTRIES_USED], pending[RATINGS] = stop, queued
    return used, block_count
