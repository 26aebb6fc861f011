"""An open-addressing hash map from 64-bit keys to rows, for entities in order of first appearance.

    slots: (2^b,) int64, the row or -1;   keys: (>= count,) uint64, key of each row

A key's probe starts at the upper bits of its hash and continues slot by slot; entries are never
removed. The caller keeps at least half of the slots free.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.hashing import hash64


@njit(cache=True, nogil=True, inline="always")
def slot_of(slots, keys, key):
    """Return the slot that holds `key`, or the empty one where it belongs."""
    last = np.uint64(slots.size - 1)
    s = hash64(key) & last
    while slots[s] >= 0 and keys[np.uint64(slots[s])] != key:
        s = (s + np.uint64(1)) & last
    return s


@njit(cache=True, nogil=True)
def rows_of(slots, keys, wanted, out):
    """Write the row of each wanted key into `out`, -1 for an unknown one."""
    for n in range(wanted.size):
        out[n] = slots[slot_of(slots, keys, wanted[n])]


@njit(cache=True, nogil=True)
def add_all(slots, keys, count, wanted, out):
    """Write the row of each wanted key into `out`, adding unknown ones; return the new count."""
    for n in range(wanted.size):
        s = slot_of(slots, keys, wanted[n])
        if slots[s] < 0:
            slots[s] = count
            keys[count] = wanted[n]
            count += 1
        out[n] = slots[s]
    return count


@njit(cache=True, nogil=True)
def rehash(slots, keys, count):
    """Fill the empty `slots` with the first `count` rows of `keys`."""
    for row in range(count):
        slots[slot_of(slots, keys, keys[row])] = row
