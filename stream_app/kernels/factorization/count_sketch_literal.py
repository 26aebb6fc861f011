"""Latent vectors in one count sketch, each component at its own address (Balu 2016, 4.1).

    g_i = hash64(hash(key) + (i d + c + 1) golden)     element c < d of (side, key); for two rows:
    row 2i        address from the upper 31 bits of g_i, sign from bit 32
    row 2i + 1    address from the lower 31 bits, sign from bit 31
    read    p[c] = 1/k * sum_j s_j(u, c) C[j, h_j(u, c)]                                     (4.1)
    write   C[j, h_j(u, c)] += s_j(u, c) * delta[c]                                          (4.3)

C: flat float32, (k, w) in C order, w < 2^31. The thesis prints the gradient step with the wrong
sign and leaves the factor 1/k of the chain rule out; here the read value moves by exactly delta
(4.3). The reference for the blocked layout: k d scattered cells for each vector, so many times
slower.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.dirty_pages import touch_float
from stream_app.kernels.machine.scalars import GOLDEN, hash64

_LOW31 = np.uint64(0x7FFFFFFF)


@njit(cache=True, nogil=True, inline="always")
def _sign(bits):
    return np.float32(1 - 2 * np.int64(bits & np.uint64(1)))


@njit(cache=True, nogil=True, inline="always")
def place(entity, D, K, w, at, signs):
    """Write the flat cell and the sign of each (row, component) into at and signs, both (K, D)."""
    for i in range((K + 1) // 2):
        even = 2 * i
        odd = min(even + 1, K - 1)  # with an odd K the last row is written twice, last by its own
        for c in range(D):
            h = hash64(entity + np.uint64(i * D + c + 1) * GOLDEN)
            at[odd, c] = np.int64(np.uint64(odd) * w + (((h & _LOW31) * w) >> np.uint64(31)))
            signs[odd, c] = _sign(h >> np.uint64(31))
            at[even, c] = np.int64(
                np.uint64(even) * w + (((h >> np.uint64(33)) * w) >> np.uint64(31))
            )
            signs[even, c] = _sign(h >> np.uint64(32))


@njit(cache=True, nogil=True, inline="always")
def read(C, D, K, at, signs, out):
    """Write the vector whose cells are `at` into out (D,)."""
    for c in range(D):
        total = signs[0, c] * C[at[0, c]]
        for j in range(1, K):
            total += signs[j, c] * C[at[j, c]]
        out[c] = total * np.float32(1.0 / K)


@njit(cache=True, nogil=True, inline="always")
def write(C, pages, D, K, at, signs, delta):
    """Add delta (D,) to the vector whose cells are `at`; mark the `pages` of C."""
    for j in range(K):
        for c in range(D):
            touch_float(pages, at[j, c])
            C[at[j, c]] += signs[j, c] * delta[c]
