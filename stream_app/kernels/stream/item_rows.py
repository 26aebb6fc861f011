"""Which items have a row of their own, when there are at most so many rows.

    an unknown item    takes the next row while there is a free row; later it waits outside:
        sketch         cells[j, h_j(item)] += 1 for j = 0 .. k-1, up to 255; every cell is halved
                       after `sample` such reports (Einziger, Friedman, Manes 2017, section 3.3)
        waits          once its smallest cell reaches `threshold`, until the end of the round
    a report           credit[row] += 1, up to 255
    end of a round     each waiting item takes the next row at the hand that has no credit; a row
                       that the hand passes loses half of its credit (the clock with counters of
                       Smith 1978); a pinned row is passed over

So a flood of new items costs `threshold` reports for each row, and takes rows of items alone that
have not been reported since the hand passed them, among them those that it took before. The sum of
a row of cells is at most `sample`, so an item without a report has a cell of sample / w at most on
average.

keys (room,) uint64, reports (room,) int64, credit (room,) uint8: by row. slots: the map from keys
to rows (`hash_index.py`). cells (k, w) uint8. numbers (2,) int64: the hand, and the reports since
about the last halving. waiting (n,) uint64 with a map of its own.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.dirty_pages import touch_bytes, touch_range, touch_word
from stream_app.kernels.machine.scalars import bounded, salted
from stream_app.kernels.stream.hash_index import home_of, slot_of

HAND, OUTSIDE = range(2)
MOST_CREDIT = 255


@njit(cache=True, nogil=True)
def _halve(cells, cells_pages):
    """Halve every cell of the sketch."""
    touch_range(cells_pages, 0, cells.size)
    for j in range(cells.shape[0]):
        for c in range(cells.shape[1]):
            cells[j, c] >>= np.uint8(1)


@njit(cache=True, nogil=True)
def _counted(cells, cells_pages, salts, key):
    """Count a report of an item outside; return its smallest cell."""
    width = np.uint64(cells.shape[1])
    least = MOST_CREDIT
    for j in range(cells.shape[0]):
        cell = bounded(salted(key, salts[j]), width)
        value = np.int64(cells[j, cell])
        if value < MOST_CREDIT:
            touch_bytes(cells_pages, np.uint64(j) * width + cell, 1)
            value += 1
            cells[j, cell] = value
        least = min(least, value)
    return least


@njit(cache=True, nogil=True)
def enter(
    slots, keys, credit, keys_pages, credit_pages, seed, count, most,
    cells, cells_pages, numbers, numbers_pages, salts, sample, threshold,
    waiting, waiting_slots, waits, wanted, rows,
):  # fmt: skip
    """Write the row of each reported item into `rows`, -1 for an item outside; return the new
    (count, waits). `keys` has room for the items that take a row."""
    for n in range(wanted.size):
        key = wanted[n]
        s = slot_of(slots, keys, key, seed)
        row = np.int64(slots[s])
        if row < 0 and count < most:
            row = np.int64(count)
            slots[s] = row
            touch_word(keys_pages, row)
            keys[row] = key
            count += 1
        rows[n] = row
        if row >= 0:
            if credit[row] < MOST_CREDIT:
                touch_bytes(credit_pages, row, 1)
                credit[row] += np.uint8(1)
            continue
        touch_range(numbers_pages, 0, 8 * numbers.size)
        if numbers[OUTSIDE] >= sample:
            _halve(cells, cells_pages)
            numbers[OUTSIDE] >>= 1
        numbers[OUTSIDE] += 1
        least = _counted(cells, cells_pages, salts, key)
        if least >= threshold and waits < waiting.size:
            s = slot_of(waiting_slots, waiting, key, seed)
            if waiting_slots[s] < 0:
                waiting_slots[s] = waits
                waiting[waits] = key
                waits += 1
    return count, waits


@njit(cache=True, nogil=True)
def _remove(slots, keys, seed, row):
    """Take a row out of the map; later entries of its run move up, so that each is still found."""
    last = np.uint64(slots.size - 1)
    hole = slot_of(slots, keys, keys[row], seed)
    s = hole
    while True:
        s = (s + np.uint64(1)) & last
        if slots[s] < 0:
            break
        home = home_of(keys[np.uint64(slots[s])], seed) & last
        if ((s - home) & last) >= ((s - hole) & last):
            slots[hole] = slots[s]
            hole = s
    slots[hole] = -1


@njit(cache=True, nogil=True)
def _victim(credit, credit_pages, numbers, numbers_pages, pinned, count, steps):
    """Move the hand to the next row without credit and past it; return (row or -1, steps left)."""
    while steps > 0:
        steps -= 1
        row = numbers[HAND]
        touch_range(numbers_pages, 0, 8 * numbers.size)
        numbers[HAND] = row + 1 if row + 1 < count else 0
        if row < pinned.size and pinned[row] >= 0:
            continue
        if credit[row] == 0:
            return row, steps
        touch_bytes(credit_pages, row, 1)
        credit[row] >>= np.uint8(1)
    return np.int64(-1), steps


@njit(cache=True, nogil=True)
def replace(
    slots, keys, reports, credit, keys_pages, reports_pages, credit_pages, seed, count,
    numbers, numbers_pages, pinned, waiting, waits, threshold, steps, replaced,
):  # fmt: skip
    """Give rows to the first `waits` waiting items, in order, while the hand finds rows within
    `steps`; write these rows into `replaced` and return how many there are.

    pinned (at most room,) int16: 0 or more for a row that keeps its item.
    """
    done = 0
    for n in range(waits):
        row, steps = _victim(credit, credit_pages, numbers, numbers_pages, pinned, count, steps)
        if row < 0:
            break
        _remove(slots, keys, seed, row)
        touch_word(keys_pages, row)
        touch_word(reports_pages, row)
        touch_bytes(credit_pages, row, 1)
        keys[row] = waiting[n]
        reports[row] = threshold
        credit[row] = 0
        slots[slot_of(slots, keys, keys[row], seed)] = row
        replaced[done] = row
        done += 1
    return done


@njit(cache=True, nogil=True)
def add_reports(reports, pages, rows, counts):
    """Add counts (n,) to the reports of rows (n,)."""
    for n in range(rows.size):
        touch_word(pages, rows[n])
        reports[rows[n]] += counts[n]
