"""Highest sequence number per device: an open-addressing table with linear probing.

    slot = hash(device) mod capacity; mark 0 = empty: a device enters with its first applied event

    seq <= mark                  DUPLICATE   untouched
    seq - mark > MAX_JUMP        JUMP        untouched (the mark of an unknown device is 0)
    else                         APPLIED     mark = seq, gap = seq - mark - 1 events that never came

keys: (capacity, 2) uint64;  marks: (capacity,) int64;  capacity a power of two.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.mixing import GOLDEN, mix

APPLIED, DUPLICATE, JUMP, SKIPPED = 0, 1, 2, 3
MAX_JUMP = 2**20


@njit(cache=True, nogil=True, inline="always")
def _slot(keys, marks, seed, first, second):
    mask = np.uint64(marks.size - 1)
    slot = mix(mix(first + seed * GOLDEN) + second) & mask
    while marks[slot] != 0 and (keys[slot, 0] != first or keys[slot, 1] != second):
        slot = (slot + np.uint64(1)) & mask
    return slot


@njit(cache=True, nogil=True)
def advance(keys, marks, seed, room, devices, seqs, accepted, start, outcomes, gaps):
    """Apply rows from `start` on, in order, until `room` new devices came in.

    Returns (next row, new devices); the next row is the one for which the table must grow first.
    """
    new = 0
    for i in range(start, seqs.size):
        gaps[i] = 0
        if not accepted[i]:
            outcomes[i] = SKIPPED
            continue
        slot = _slot(keys, marks, seed, devices[i, 0], devices[i, 1])
        mark = marks[slot]
        if seqs[i] <= mark:
            outcomes[i] = DUPLICATE
        elif seqs[i] - mark > MAX_JUMP:
            outcomes[i] = JUMP
        else:
            if mark == 0:
                if new == room:
                    return i, new
                new += 1
                keys[slot, 0] = devices[i, 0]
                keys[slot, 1] = devices[i, 1]
            marks[slot] = seqs[i]
            outcomes[i] = APPLIED
            gaps[i] = seqs[i] - mark - 1
    return seqs.size, new


@njit(cache=True, nogil=True)
def find(keys, marks, seed, devices, found):
    """Write the mark of each device into `found`, 0 where it is unknown."""
    for i in range(found.size):
        found[i] = marks[_slot(keys, marks, seed, devices[i, 0], devices[i, 1])]


@njit(cache=True, nogil=True)
def place(keys, marks, seed, devices, values):
    """Enter devices with their marks into a table that has room for them (growing, loading)."""
    for i in range(values.size):
        slot = _slot(keys, marks, seed, devices[i, 0], devices[i, 1])
        keys[slot, 0] = devices[i, 0]
        keys[slot, 1] = devices[i, 1]
        marks[slot] = values[i]
