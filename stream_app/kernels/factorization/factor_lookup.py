"""Look-up of vectors and biases of many entities in a sketch, for an index and for queries."""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import njit

from stream_app.kernels.factorization.bias_table import BIAS, slot_of
from stream_app.kernels.factorization.count_sketch_blocked import place as place_blocked
from stream_app.kernels.factorization.count_sketch_blocked import read as read_blocked
from stream_app.kernels.factorization.count_sketch_literal import place as place_literal
from stream_app.kernels.factorization.count_sketch_literal import read as read_literal
from stream_app.kernels.factorization.hybrid_rows import prepare, row_of
from stream_app.kernels.machine.scalars import hash64
from stream_app.kernels.machine.simd import load, store


@cache
def blocked_reader(D, K):
    """Return the function that writes vectors into out (n, D) and biases into biases (n,)."""

    @njit(cache=True, nogil=True)
    def read_many(C, tags, scalars, salt, keys, out, biases):
        blocks = np.uint64(C.size // (D * K))
        entity = np.empty(1, np.uint64)
        at, words = np.empty((K, 1), np.int64), np.empty((K, 1), np.uint64)
        flat = out.reshape(-1)
        for n in range(keys.size):
            entity[0] = hash64(keys[n] + salt)
            place_blocked(entity, D, K, blocks, at, words)
            store(flat, n * D, read_blocked(C, at, words, 0, D, K))
            biases[n] = scalars[slot_of(tags, entity[0]), BIAS]

    return read_many


@cache
def hybrid_reader(D):
    """Return the same for rows of an entity's own and shared ones."""

    @njit(cache=True, nogil=True)
    def read_many(C, tags, scalars, owners, rows, salt, scale, keys, out, biases):
        shared = C.size // D - rows
        flat = out.reshape(-1)
        for n in range(keys.size):
            h = hash64(keys[n] + salt)
            s = slot_of(tags, h)
            at, word = row_of(tags[s], owners[s], h, rows, shared, D)
            if 0 <= at < rows * D:
                store(flat, n * D, load(C, at, D))
            else:
                prepare(C, at, word, h, scale, D, flat, n * D)
            biases[n] = scalars[s, BIAS]

    return read_many


@cache
def literal_reader(D, K):
    """Return the same for the literal layout."""

    @njit(cache=True, nogil=True)
    def read_many(C, tags, scalars, salt, keys, out, biases):
        w = np.uint64(C.size // K)
        at, signs = np.empty((K, D), np.int64), np.empty((K, D), np.float32)
        for n in range(keys.size):
            h = hash64(keys[n] + salt)
            place_literal(h, D, K, w, at, signs)
            read_literal(C, D, K, at, signs, out[n])
            biases[n] = scalars[slot_of(tags, h), BIAS]

    return read_many
