"""An open-addressing hash map from 64-bit keys to rows, for entities in order of first appearance.

    slots: (2^b,) int64, the row or -1;   keys: (>= count,) uint64, key of each row
    home slot of a key   hash64(hash64(key + seed * golden) + seed) mod 2^b

A key's probe starts at its home slot and continues slot by slot; entries are never removed. The
caller keeps at least half of the slots free.

Devices choose the keys and `hash64` can be inverted, so with a public seed a device could name
100,000 keys of one home slot, each of which costs a look at all before it. The caller draws the
seed in its process: it places keys in the table and shows in no result.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.scalars import GOLDEN, hash64


@njit(cache=True, nogil=True, inline="always")
def home_of(key, seed):
    """Return the hash whose lower bits are the slot at which the probe of `key` starts."""
    return hash64(hash64(key + seed * GOLDEN) + seed)


@njit(cache=True, nogil=True, inline="always")
def slot_of(slots, keys, key, seed):
    """Return the slot that holds `key`, or the empty one where it belongs."""
    last = np.uint64(slots.size - 1)
    s = home_of(key, seed) & last
    while slots[s] >= 0 and keys[np.uint64(slots[s])] != key:
        s = (s + np.uint64(1)) & last
    return s


@njit(cache=True, nogil=True)
def rows_of(slots, keys, seed, wanted, out):
    """Write the row of each wanted key into `out`, -1 for an unknown one."""
    for n in range(wanted.size):
        out[n] = slots[slot_of(slots, keys, wanted[n], seed)]


@njit(cache=True, nogil=True)
def add_all(slots, keys, seed, count, wanted, out):
    """Write the row of each wanted key into `out`, adding unknown ones; return the new count."""
    for n in range(wanted.size):
        s = slot_of(slots, keys, wanted[n], seed)
        if slots[s] < 0:
            slots[s] = count
            keys[count] = wanted[n]
            count += 1
        out[n] = slots[s]
    return count


@njit(cache=True, nogil=True)
def rehash(slots, keys, seed, count):
    """Fill the empty `slots` with the first `count` rows of `keys`."""
    for row in range(count):
        slots[slot_of(slots, keys, keys[row], seed)] = row
