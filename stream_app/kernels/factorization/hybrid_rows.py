"""Latent vectors in rows of an entity's own while they last, and in shared rows after that.

    own      p[c] = C[r d + c]                                 row r of the entity, from its slot
    shared   p[c] = p_0[c] + s(e, c) C[(R + block(e)) d + c]   p_0: the hashed initial vector
    unknown  p[c] = p_0[c]
    write    the read moves by delta

C: flat float32, (R + B, d): R rows handed out in the order of first learning, then B rows that are
feature hashing (a count sketch of depth one; Balu 2016, 4.1) with zeros at first, so that a shared
row holds what its entities have learned and nothing else. owners (S,) int32: 1 + the own row of the
entity in a slot of the table of scalars (`bias_table.py`), 0 for none. An entity without a slot of
its own has no row of its own either.

Most ratings are of entities that come early and often. These are exact, as in dense rows; only the
tail collides, and never with them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.factorization.bias_table import slot_of, tag_of
from stream_app.kernels.factorization.count_sketch_blocked import MULTIPLIERS
from stream_app.kernels.factorization.initialization import component
from stream_app.kernels.machine.dirty_pages import touch_float, touch_floats
from stream_app.kernels.machine.scalars import GOLDEN, bounded, hash64
from stream_app.kernels.machine.simd import add, flip, load, store

_SPREAD = MULTIPLIERS[0]
NOWHERE = -1  # place of an unknown entity


@njit(cache=True, nogil=True, inline="always")
def row_of(tag, owner, h, rows, shared, D):
    """Return (place in C, sign bits) of the entity with hash h, whose slot holds `tag` and `owner`;
    NOWHERE if unknown.

    A row of its own has a place below rows * D and no sign bits. It takes no array,
    to which numba would count references.
    """
    g = h * _SPREAD
    g ^= g >> np.uint64(32)
    block = np.int64(bounded(g, np.uint64(shared)))
    word = g if D <= 32 else hash64(g + GOLDEN)
    row = np.int64(owner) - 1
    own = (tag == tag_of(h)) & (row >= 0)
    at = (row if own else rows + block) * D
    at = np.int64(NOWHERE) if tag == 0 else at
    word = np.uint64(0) if own else word
    return at, word


@njit(cache=True, nogil=True)
def prepare(C, at, word, h, scale, D, out, first):
    """Write the vector of an entity without a row of its own into out[first : first + D], which may
    be a part of C."""
    for c in range(D):
        x = component(h, c, scale)
        if at >= 0:
            bit = (word >> np.uint64(c % 64)) & np.uint64(1)
            x += C[at + c] * np.float32(1 - 2 * np.int64(bit))
        out[first + c] = x


@njit(cache=True, nogil=True)
def claim(C, tags, owners, given, C_pages, tags_pages, owners_pages, s, h, scale, rows, D):
    """Take a free slot and, while there are any, the next row, with the initial vector in it."""
    if tags[s] != 0:
        return
    touch_float(tags_pages, s)
    tags[s] = tag_of(h)
    if given[0] < rows:
        touch_floats(C_pages, given[0] * D, D)
        prepare(C, NOWHERE, np.uint64(0), h, scale, D, C, given[0] * D)
        given[0] += 1
        touch_float(owners_pages, s)
        owners[s] = given[0]


@njit(cache=True, nogil=True, inline="always")
def write(C, pages, at, word, delta, D):
    """Add delta to the vector at place `at`; mark the `pages` of C."""
    touch_floats(pages, at, D)
    store(C, at, add(load(C, at, D), flip(delta, word)))


@njit(cache=True, nogil=True)
def forget(C, tags, owners, pages, key, salt, scale, rows, D):
    """Reset the vector of a user: its own row to the initial vector, or its shared row to zeros."""
    h = hash64(key + salt)
    s = slot_of(tags, h)
    at, _ = row_of(tags[s], owners[s], h, rows, C.size // D - rows, D)
    if at < 0:
        return
    for c in range(D):
        touch_float(pages, at + c)
        C[at + c] = component(h, c, scale) if at < rows * D else np.float32(0.0)
