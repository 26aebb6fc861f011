"""Highest sequence number per device: rows in order of first appearance, found by linear probing.

    slot = hash(device) mod capacity, then linear probing; slots[slot] = row or -1

    seq <= mark                  DUPLICATE   untouched
    seq - mark > MAX_JUMP        JUMP        untouched (the mark of an unknown device is 0)
    else                         APPLIED     mark = seq, gap = seq - mark - 1 missing events

A device gets the next row with its first applied event. slots: (capacity,) int64, a power of two of
at least twice the rows;  devices: (rows, 2) uint64;  marks: (rows,) int64.  What is written is
marked in the pages of its array (`dirty_pages.py`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.dirty_pages import WORDS
from stream_app.kernels.machine.hashing import GOLDEN, hash64

APPLIED, DUPLICATE, JUMP, SKIPPED = 0, 1, 2, 3
MAX_JUMP = 2**20


@njit(cache=True, nogil=True, inline="always")
def _slot(slots, known, seed, first, second):
    """Return the slot that holds a device, or the empty one where it belongs."""
    mask = np.uint64(slots.size - 1)
    slot = hash64(hash64(first + seed * GOLDEN) + second) & mask
    row = slots[slot]
    while row >= 0 and (known[row, 0] != first or known[row, 1] != second):
        slot = (slot + np.uint64(1)) & mask
        row = slots[slot]
    return slot


@njit(cache=True, nogil=True)
def advance(
    slots, known, marks, known_pages, marks_pages, seed, count,
    devices, seqs, accepted, start, outcomes, gaps,
):  # fmt: skip
    """Apply rows from `start` on, in order, until a new device finds no row left in `known`.

    Returns (next row, devices known); the next row is the one for which the tables must grow first.
    """
    for i in range(start, seqs.size):
        gaps[i] = 0
        if not accepted[i]:
            outcomes[i] = SKIPPED
            continue
        slot = _slot(slots, known, seed, devices[i, 0], devices[i, 1])
        row = slots[slot]
        mark = marks[row] if row >= 0 else np.int64(0)
        if seqs[i] <= mark:
            outcomes[i] = DUPLICATE
        elif seqs[i] - mark > MAX_JUMP:
            outcomes[i] = JUMP
        else:
            if row < 0:
                if count == marks.size:
                    return i, count
                row = np.int64(count)
                count += 1
                slots[slot] = row
                known[row, 0] = devices[i, 0]
                known[row, 1] = devices[i, 1]
                known_pages[(2 * row) >> WORDS] = 1
            marks[row] = seqs[i]
            marks_pages[row >> WORDS] = 1
            outcomes[i] = APPLIED
            gaps[i] = seqs[i] - mark - 1
    return seqs.size, count


@njit(cache=True, nogil=True)
def find(slots, known, seed, devices, rows):
    """Write the row of each device into `rows`, -1 where it is unknown."""
    for i in range(rows.size):
        rows[i] = slots[_slot(slots, known, seed, devices[i, 0], devices[i, 1])]


@njit(cache=True, nogil=True)
def place(slots, known, seed, count):
    """Enter the first `count` devices of `known` into the empty `slots`; return how many are
    distinct."""
    distinct = 0
    for row in range(count):
        slot = _slot(slots, known, seed, known[row, 0], known[row, 1])
        if slots[slot] < 0:
            slots[slot] = row
            distinct += 1
    return distinct
