"""What a table of fixed size holds of entities by key, and entering it there by key.

An entity is known where its slot has its tag (`bias_table.py`); one that shares a slot of others is
not, and nothing is entered for it: what stands there is theirs.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.factorization.bias_table import slot_of, tag_of
from stream_app.kernels.factorization.hybrid_rows import claim
from stream_app.kernels.machine.dirty_pages import FLOATS, touch_float, touch_triple
from stream_app.kernels.machine.scalars import hash64


@njit(cache=True, nogil=True)
def read_scalars(tags, scalars, salt, keys, out):
    """Write the scalars of each key into out (n, 3), NaN for an entity that is not known."""
    for n in range(keys.size):
        h = hash64(keys[n] + salt)
        s = slot_of(tags, h)
        known = tags[s] == tag_of(h)
        for c in range(3):
            out[n, c] = scalars[s, c] if known else np.float32(np.nan)


@njit(cache=True, nogil=True)
def find_slots(tags, salt, keys, out):
    """Write into out (n,) the slot of each key, -1 for an entity that is not known."""
    for n in range(keys.size):
        h = hash64(keys[n] + salt)
        s = slot_of(tags, h)
        out[n] = np.int64(s) if tags[s] == tag_of(h) else -1


@njit(cache=True, nogil=True)
def enter_rows(
    C, tags, scalars, owners, given, C_pages, tags_pages, scalars_pages, owners_pages,
    rows, salt, scale, D, keys, vectors, values,
):  # fmt: skip
    """Enter the scalars `values` (n, 3) of each key, and its vector of vectors (n, D), which may
    have no row, where it has a row of its own or one is left; return how many were entered."""
    entered = 0
    for n in range(keys.size):
        h = hash64(keys[n] + salt)
        s = slot_of(tags, h)
        claim(C, tags, owners, given, C_pages, tags_pages, owners_pages, s, h, scale, rows, D)
        if tags[s] != tag_of(h):
            continue
        entered += 1
        touch_triple(scalars_pages, s, FLOATS)
        for c in range(3):
            scalars[s, c] = values[n, c]
        if owners[s] == 0 or vectors.shape[0] == 0:
            continue
        first = np.int64(owners[s] - 1) * D
        for c in range(D):
            touch_float(C_pages, first + c)
            C[first + c] = vectors[n, c]
    return entered
