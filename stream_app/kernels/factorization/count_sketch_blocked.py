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
from stream_app.kernels.machine.memory import prefetch
from stream_app.kernels.machine.scalars import GOLDEN, hash64
from stream_app.kernels.machine.simd import add, flip, load, scale, store

LINE = 16  # floats in a cache line
_HALF = np.uint64(32)


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
def place(entities, D, K, blocks, at, words):
    """Write where the blocks of entity hashes (m,) begin and their sign bits: at, words (K, m).

    A pass of its own: it has no branch, so that LLVM hashes a register of entities at a time.
    """
    for j in range(K):
        for n in range(entities.size):
            h = entities[n] * MULTIPLIERS[j]
            h ^= h >> _HALF
            block = np.uint64(j) * blocks + ((h >> _HALF) * blocks >> _HALF)
            at[j, n] = np.int64(block * np.uint64(D))
            words[j, n] = h if D <= 32 else hash64(h + GOLDEN)


@njit(cache=True, nogil=True, inline="always")
def fetch(C, at, n, D, K):
    """Prefetch the blocks of entity n of those placed; changes nothing."""
    for j in range(K):
        for line in range(0, D, LINE):
            prefetch(C, at[j, n] + line)


@njit(cache=True, nogil=True, inline="always")
def read(C, at, words, n, D, K):
    """Return the vector of entity n of those placed: the mean of its signed rows."""
    v = flip(load(C, at[0, n], D), words[0, n])
    for j in range(1, K):
        v = add(v, flip(load(C, at[j, n], D), words[j, n]))
    return scale(v, np.float32(1.0 / K))


@njit(cache=True, nogil=True)
def mark(pages, at, n, D, K):
    """Mark the pages of the blocks of entity n of those placed, before they are written."""
    for j in range(K):
        touch_floats(pages, at[j, n], D)


@njit(cache=True, nogil=True, inline="always")
def write(C, at, words, n, D, K, delta):
    """Add delta to the vector of entity n of those placed and marked."""
    for j in range(K):
        store(C, at[j, n], add(load(C, at[j, n], D), flip(delta, words[j, n])))
