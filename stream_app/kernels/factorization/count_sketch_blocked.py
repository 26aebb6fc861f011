"""Latent vectors in one count sketch, a whole vector at one address a row (Balu 2016, 4.1).

    h_j(e)  = g xor (g >> 32),  g = hash(e) a_j         a_j: an odd word for each row
    block   = upper half of h_j, scaled to 0 .. B-1
    s_j     = lower half of h_j, a bit a component
    read    p[c] = 1/k * sum_j s_j(e, c) C[j, block_j(e), c]                                 (4.1)
    write   C[j, block_j(e), c] += s_j(e, c) * delta[c]         the read moves by delta      (4.3)

C: flat float32, (k, B, d) in C order: the thesis' k rows of w = B d cells. Above 32 components the
signs come from a further hash, and repeat after 64. Entities that share a block share all of it,
but with their own signs in every component, so a read is as unbiased and as noisy as with one
address a component, at 1/d of the cache misses. D and K are compile-time numbers; a vector lives
in registers (`simd.py`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.dirty_pages import touch_floats
from stream_app.kernels.machine.hashing import GOLDEN, hash64
from stream_app.kernels.machine.prefetch import prefetch
from stream_app.kernels.machine.simd import add, flip, load, scale, store

LINE = 16  # floats in a cache line


def _odd_words(count):
    """Return the first outputs of splitmix64 from 0, made odd: unrelated multipliers."""
    words, state = [], 0
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        words.append((z ^ (z >> 31)) | 1)
    return np.array(words, np.uint64)


MAX_DEPTH = 16
MULTIPLIERS = _odd_words(MAX_DEPTH)


@njit(cache=True, nogil=True, inline="always")
def place(C, entities, many, D, K, blocks, at, words):
    """Write where the blocks of entity hashes (m,) begin and their sign bits: at, words (m, K).

    A pass of its own: hashing ahead of the reads hides its latency.
    """
    for n in range(many):
        for j in range(K):
            h = entities[n] * MULTIPLIERS[j]
            h ^= h >> np.uint64(32)
            block = np.uint64(j) * blocks + ((h >> np.uint64(32)) * blocks >> np.uint64(32))
            at[n, j] = np.int64(block * np.uint64(D))
            for line in range(0, D, LINE):
                prefetch(C, at[n, j] + line)
            words[n, j] = h if D <= 32 else hash64(h + GOLDEN)


@njit(cache=True, nogil=True, inline="always")
def read(C, at, words, n, D, K):
    """Return the vector of entity n of those placed: the mean of its signed rows."""
    v = flip(load(C, at[n, 0], D), words[n, 0])
    for j in range(1, K):
        v = add(v, flip(load(C, at[n, j], D), words[n, j]))
    return scale(v, np.float32(1.0 / K))


@njit(cache=True, nogil=True, inline="always")
def write(C, pages, at, words, n, D, K, delta):
    """Add delta to the vector of entity n of those placed; mark the `pages` of C."""
    for j in range(K):
        touch_floats(pages, at[n, j], D)
        store(C, at[n, j], add(load(C, at[n, j], D), flip(delta, words[n, j])))
