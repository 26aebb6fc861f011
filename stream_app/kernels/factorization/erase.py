"""Erasure of one user from tables shared with others, as far as they can be separated.

    p_0[l]   read (4.1) from the cells as they were before the first rating, which are hashes
    p[l]     read from the cells as they are
    C[j, h_j(u, l)] += s_j(u, l) (p_0[l] - p[l])        so that the user reads as an unknown one

The difference is the sum of the user's own updates and of its collisions, so users that share a
cell keep about as much noise as before, or less. Components of the user that share a cell disturb
each other; a few Gauss-Seidel sweeps converge.

A row of scalars or sums is reset only where its tag is the user's: a shared slot is not the user's
own.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.factorization.bias_table import BIAS, BIAS_SHARE, SHARE, slot_of, tag_of
from stream_app.kernels.factorization.count_sketch_blocked import place as place_blocked
from stream_app.kernels.factorization.initialization import cell
from stream_app.kernels.machine.dirty_pages import (
    FLOATS,
    WORDS,
    touch_float,
    touch_triple,
)
from stream_app.kernels.machine.scalars import hash64

_SWEEPS = 4


@njit(cache=True, nogil=True)
def places_blocked(C, entity, at, signs):
    """Write the cell and the sign of each (row, component) of the blocked layout: (K, D) each."""
    K, D = at.shape
    entities, words = np.empty(1, np.uint64), np.empty((K, 1), np.uint64)
    begin = np.empty((K, 1), np.int64)
    entities[0] = entity
    place_blocked(entities, D, K, np.uint64(C.size // (D * K)), begin, words)
    for j in range(K):
        for c in range(D):
            bit = (words[j, 0] >> np.uint64(c % 64)) & np.uint64(1)
            at[j, c] = begin[j, 0] + c
            signs[j, c] = np.float32(1 - 2 * np.int64(bit))


@njit(cache=True, nogil=True)
def forget_vector(C, pages, key, salt, first_salt, first_scale, D, K):
    """Make the vector of a user read as it did before the first rating; mark the `pages` of C."""
    at, signs = np.empty((K, D), np.int64), np.empty((K, D), np.float32)
    places_blocked(C, hash64(key + salt), at, signs)
    for _ in range(_SWEEPS):
        for c in range(D):
            off = 0.0
            for j in range(K):
                first = cell(first_salt, first_scale, at[j, c])
                off += np.float64(signs[j, c]) * (np.float64(first) - np.float64(C[at[j, c]]))
            for j in range(K):
                touch_float(pages, at[j, c])
                C[at[j, c]] += signs[j, c] * np.float32(off / K)


@njit(cache=True, nogil=True)
def forget_scalars(tags, scalars, pages, key, salt):
    """Reset the scalars of a user with a slot of its own to their initial values."""
    h = hash64(key + salt)
    s = slot_of(tags, h)
    if tags[s] == tag_of(h):
        touch_triple(pages, s, FLOATS)
        scalars[s, BIAS] = np.float32(0.0)
        scalars[s, BIAS_SHARE] = np.float32(1.0)
        scalars[s, SHARE] = np.float32(1.0)


@njit(cache=True, nogil=True)
def forget_sums(tags, sums, pages, key, salt):
    """Clear the presence sums of a user with a slot of its own."""
    h = hash64(key + salt)
    s = slot_of(tags, h)
    if tags[s] == tag_of(h):
        touch_triple(pages, s, WORDS)
        sums[s, :] = 0.0
