"""Fast AMS sketch of the second moment F2 = sum of squared counts.

    g_j(x) = a_0 + a_1 x + a_2 x^2 + a_3 x^3  mod p = 2^61 - 1        4-wise independent over x < p
    s = +1 or -1 by bit 0 of g_j,   cell = floor(bits 29 .. 60 of g_j * w / 2^32)
    C[j, cell] += s n
    F_j = sum_cell C[j, cell]^2     kept as F_j += s n (s n + 2 C), C before

E F_j = F2 and Var F_j <= 2 F2^2 / w (Alon, Matias, Szegedy 1999; Thorup, Zhang 2004). "Average of
|c|^p" for another p (Balu 2016, 2.3.2.7) does not estimate F_p.

cells C: (k, w) int64;  moments F: (k,) int64;  coefficients a: (k, 4) uint64 below p;
keys: (m,) uint64. Exact integers: F2 is right up to 2^63, one key seen 3 * 10^9 times.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.wide_integers import PRIME, multiply_mod


@njit(cache=True, nogil=True, inline="always")
def _plus(a, b):
    total = a + b
    return total - PRIME if total >= PRIME else total


@njit(cache=True, nogil=True, inline="always")
def _residue(key):
    # 2^61 = 1 mod p: fold the top three bits onto the lower ones.
    total = (key & PRIME) + (key >> np.uint64(61))
    return total - PRIME if total >= PRIME else total


@njit(cache=True, nogil=True)
def polynomial(coefficients, x):
    """Return a_0 + a_1 x + a_2 x^2 + a_3 x^3 mod 2^61 - 1 for x below it."""
    value = _plus(multiply_mod(coefficients[3], x), coefficients[2])
    value = _plus(multiply_mod(value, x), coefficients[1])
    return _plus(multiply_mod(value, x), coefficients[0])


@njit(cache=True, nogil=True)
def add(cells, moments, coefficients, keys, counts):
    """Add each key's count to one signed cell of every row and keep the row's sum of squares."""
    depth = cells.shape[0]
    width = np.uint64(cells.shape[1])
    for i in range(keys.size):
        x = _residue(keys[i])
        for j in range(depth):
            value = polynomial(coefficients[j], x)
            cell = ((value >> np.uint64(29)) * width) >> np.uint64(32)
            step = counts[i] - np.int64(2) * counts[i] * np.int64(value & np.uint64(1))
            before = cells[j, cell]
            moments[j] += step * (step + 2 * before)
            cells[j, cell] = before + step
