"""Split-block Bloom filter of pairs, eight bits of one 32-byte block (Putze et al. 2007).

    h = hash64(hash64(user + seed * golden) + item)  block = bounded(h, blocks)
    g = hash64(h + golden)                           bit of word j = bits 5j .. 5j+4 of g, j < 8

A fresh pair is found with probability

    1/blocks * sum_b prod_j ones(block b, word j) / 32           given the fill
    sum_n Binomial(n; pairs, 1/blocks) (1 - (31/32)^n)^8         expected

Hashes wait in a ring of AHEAD places until their blocks have come from memory.

blocks: (blocks, 8) uint32; users, items: (m,) uint64. A pair costs one cache line at any size.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.dirty_pages import touch_bytes
from stream_app.kernels.machine.memory import AHEAD, prefetch
from stream_app.kernels.machine.scalars import GOLDEN, bounded, hash64, popcount

WORDS = 8
BLOCK_BYTES = 4 * WORDS


@njit(cache=True, nogil=True, inline="always")
def _hash(user: np.uint64, item: np.uint64, seed: np.uint64) -> np.uint64:
    return hash64(hash64(user + seed * GOLDEN) + item)


@njit(cache=True, nogil=True)
def _ring(blocks, users, items, seed):
    """Return the hashes of the first pairs, whose blocks are on their way."""
    hashes = np.empty(AHEAD, np.uint64)
    for i in range(min(AHEAD, users.size)):
        hashes[i] = _hash(users[i], items[i], seed)
        prefetch(blocks, np.int64(bounded(hashes[i], np.uint64(blocks.shape[0]))))
    return hashes


@njit(cache=True, nogil=True)
def add(blocks, pages, users, items, seed):
    """Set the eight bits of each pair in `blocks`; mark the `pages` of the blocks."""
    count = np.uint64(blocks.shape[0])
    hashes = _ring(blocks, users, items, seed)
    for i in range(users.size):
        h = hashes[i & (AHEAD - 1)]
        if i + AHEAD < users.size:
            later = _hash(users[i + AHEAD], items[i + AHEAD], seed)
            hashes[i & (AHEAD - 1)] = later
            prefetch(blocks, np.int64(bounded(later, count)))
        block = bounded(h, count)
        touch_bytes(pages, np.int64(block) * BLOCK_BYTES, BLOCK_BYTES)
        g = hash64(h + GOLDEN)
        for j in range(WORDS):
            bit = (g >> np.uint64(5 * j)) & np.uint64(31)
            blocks[block, j] |= np.uint32(np.uint64(1) << bit)


@njit(cache=True, nogil=True)
def test(blocks, users, items, seed, found):
    """Write into `found` whether all eight bits of each pair are set."""
    count = np.uint64(blocks.shape[0])
    hashes = _ring(blocks, users, items, seed)
    for i in range(users.size):
        h = hashes[i & (AHEAD - 1)]
        if i + AHEAD < users.size:
            later = _hash(users[i + AHEAD], items[i + AHEAD], seed)
            hashes[i & (AHEAD - 1)] = later
            prefetch(blocks, np.int64(bounded(later, count)))
        block = bounded(h, count)
        g = hash64(h + GOLDEN)
        present = np.uint32(1)
        for j in range(WORDS):
            bit = (g >> np.uint64(5 * j)) & np.uint64(31)
            present &= np.uint32(np.uint64(blocks[block, j]) >> bit)
        found[i] = present == np.uint32(1)


@njit(cache=True, nogil=True)
def fill(blocks):
    """Return the number of set bits and the probability that a fresh pair is found."""
    total = np.int64(0)
    likelihood = 0.0
    for b in range(blocks.shape[0]):
        product = 1.0
        for j in range(WORDS):
            count = np.int64(popcount(np.uint64(blocks[b, j])))
            total += count
            product *= count / 32.0
        likelihood += product
    return total, likelihood / blocks.shape[0]
