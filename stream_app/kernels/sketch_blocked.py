"""Latent vectors in one count sketch, a whole vector at one address a row (S004 section 4.1, blocked).

    h_j(e)  = mix(hash(e) + (j + 1) golden)             one hash for each (entity, row)
    block   = upper half of h_j, scaled to 0 .. B-1     signs s_j: lower half of h_j, a bit a component
    read    p[l] = 1/k * sum_j s_j(e, l) C[j, block_j(e), l]                                 (4.1)
    write   C[j, block_j(e), l] += s_j(e, l) * delta[l]         the read moves by delta      (4.3)

C: flat float32, (k, B, d) in C order: the thesis' k rows of w = B d cells. Above 32 components the signs
come from a further hash, and repeat after 64. Entities that share a block share all of it, but with their
own signs in every component, so a read is as unbiased and as noisy as with one address a component, at
1/d of the cache misses. D and K are compile-time numbers; a vector lives in registers (`lanes.py`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.lanes import add, flip, load, scale, store
from stream_app.kernels.mixing import GOLDEN, bounded, mix


@njit(cache=True, nogil=True, inline="always")
def row_hash(entity, j):
    """Return the hash of an entity's block in row j."""
    return mix(entity + np.uint64(j + 1) * GOLDEN)


@njit(cache=True, nogil=True, inline="always")
def start(h, j, blocks, D):
    """Return the flat index of the first cell of the block that hash h names in row j."""
    return np.int64((np.uint64(j) * blocks + bounded(h, blocks)) * np.uint64(D))


@njit(cache=True, nogil=True, inline="always")
def signs(h, D):
    """Return the sign bits of the block's components."""
    return h if D <= 32 else mix(h + GOLDEN)


@njit(cache=True, nogil=True, inline="always")
def read(C, entity, blocks, D, K):
    """Return the vector of an entity: the mean of its signed rows."""
    h = row_hash(entity, 0)
    v = flip(load(C, start(h, 0, blocks, D), D), signs(h, D))
    for j in range(1, K):
        h = row_hash(entity, j)
        v = add(v, flip(load(C, start(h, j, blocks, D), D), signs(h, D)))
    return scale(v, np.float32(1.0 / K))


@njit(cache=True, nogil=True, inline="always")
def write(C, entity, blocks, D, K, delta):
    """Add delta to the vector of an entity."""
    for j in range(K):
        h = row_hash(entity, j)
        a = start(h, j, blocks, D)
        store(C, a, add(load(C, a, D), flip(delta, signs(h, D))))
