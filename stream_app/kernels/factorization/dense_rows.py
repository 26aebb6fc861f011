"""Latent vectors with a row of their own: the baseline whose memory grows with the entities seen.

    keys (R,) uint64, vectors flat (R d) float32, scalars (R, 3) float32, slots: the map key -> row,
    placed by `seed` (`hash_index.py`)

Rows are handed out in the order of first learning. An unknown entity is prepared in the first free
row, which the caller guarantees to exist: its initial values are written there and read like any
other, but the row counts as its own only once it learns.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.factorization.initialization import component
from stream_app.kernels.machine.memory import prefetch
from stream_app.kernels.machine.scalars import hash64
from stream_app.kernels.stream.hash_index import home_of, slot_of

LINE = 16  # floats in a cache line


@njit(cache=True, nogil=True)
def row_of(slots, keys, seed, count, key, salt, scale, D, vectors, scalars):
    """Return (row, slot) of `key`; an unknown one is prepared in row `count`, which stays free."""
    s = slot_of(slots, keys, key, seed)
    row = slots[s]
    if row < 0:
        row = count
        h = hash64(key + salt)
        for c in range(D):
            vectors[row * D + c] = component(h, c, scale)
        scalars[row, 0] = np.float32(0.0)
        scalars[row, 1] = np.float32(1.0)
        scalars[row, 2] = np.float32(1.0)
    return row, np.int64(s)


@njit(cache=True, nogil=True, inline="always")
def seek(slots, seed, wanted, first, homes):
    """Write where the probes of the next keys from wanted[first] on start into `homes` (AHEAD,) and
    prefetch these slots."""
    last = np.uint64(slots.size - 1)
    for n in range(min(homes.size, wanted.size - first)):
        homes[n] = home_of(wanted[first + n], seed) & last
        prefetch(slots, np.int64(homes[n]))


@njit(cache=True, nogil=True, inline="always")
def find_known(slots, keys, wanted, first, many, homes, vectors, scalars, D, rows):
    """Write the rows of wanted[first : first + many], sought before, into `rows`, -1 for an unknown
    one, and prefetch vectors and scalars."""
    last = np.uint64(slots.size - 1)
    for n in range(many):
        row = slots[homes[n]]
        rows[n] = row
        at = max(np.int64(row), 0)
        prefetch(keys, at)
        prefetch(scalars, at)
        for line in range(0, D, LINE):
            prefetch(vectors, at * D + line)
    for n in range(many):
        s = homes[n]
        while rows[n] >= 0 and keys[np.uint64(rows[n])] != wanted[first + n]:
            s = (s + np.uint64(1)) & last
            rows[n] = slots[s]


@njit(cache=True, nogil=True)
def read_many(slots, keys, seed, count, wanted, salt, scale, D, vectors, scalars, out, biases):
    """Write the vectors and biases of the wanted keys into out (n, D) and biases (n,)."""
    for n in range(wanted.size):
        row, _ = row_of(slots, keys, seed, count, wanted[n], salt, scale, D, vectors, scalars)
        for c in range(D):
            out[n, c] = vectors[row * D + c]
        biases[n] = scalars[row, 0]
