"""Fast AMS sketch of the second moment F2 = sum of squared counts.

    g_j(x) = a_0 + a_1 x + a_2 x^2 + a_3 x^3  mod p = 2^61 - 1        4-wise independent over x < p
    s = +1 or -1 by bit 0 of g_j,   cell = floor(bits 29 .. 60 of g_j * w / 2^32)
    C[j, cell] += s n
    F_j = sum_cell C[j, cell]^2     kept as F_j += s n (s n + 2 C), C before

E F_j = F2 and Var F_j <= 2 F2^2 / w (Alon, Matias, Szegedy 1999; Thorup, Zhang 2004). "Average of
|c|^p" for another p (Balu 2016, 2.3.2.7) does not estimate F_p.

The polynomial is evaluated from the powers of x by halves of 32 and 29 bits,

    a b = hh 2^64 + m 2^32 + ll     2^61 = 1, so 8 hh + floor(m / 2^29) + (m mod 2^29) 2^32 + ll

whose sums over the three products stay below 2^64: plain 64-bit operations, which become vector
instructions over the TOGETHER keys of a step.

cells C: (k, w) int64;  moments F: (k,) int64;  coefficients a: (k, 4) uint64 below p;
keys: (m,) uint64. Exact integers: F2 is right up to 2^63, one key seen 3 * 10^9 times.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.scalars import PRIME

TOGETHER = 256  # keys; their powers stay in the first-level cache
_HALF, _LOW = np.uint64(32), np.uint64(2**32 - 1)
_REST, _LOW_REST = np.uint64(29), np.uint64(2**29 - 1)
_TOP, _THREE, _ONE = np.uint64(61), np.uint64(3), np.uint64(1)


@njit(cache=True, nogil=True, inline="always")
def _residue(total):
    # 2^61 = 1 mod p: fold the top three bits onto the lower ones.
    folded = (total & PRIME) + (total >> _TOP)
    return folded - PRIME if folded >= PRIME else folded


@njit(cache=True, nogil=True, inline="always")
def _folded(hh, middle, low):
    """Return a number congruent to hh 2^64 + middle 2^32 + low."""
    return (hh << _THREE) + (middle >> _REST) + ((middle & _LOW_REST) << _HALF) + low


@njit(cache=True, nogil=True, inline="always")
def product(a, b):
    """Return a b mod p for a, b < p."""
    a1, a0, b1, b0 = a >> _HALF, a & _LOW, b >> _HALF, b & _LOW
    low = a0 * b0
    return _residue(_folded(a1 * b1, a1 * b0 + a0 * b1 + (low >> _HALF), low & _LOW))


@njit(cache=True, nogil=True, inline="always")
def polynomial(coefficients, x, x2, x3):
    """Return a_0 + a_1 x + a_2 x^2 + a_3 x^3 mod p, given the powers of x below it."""
    hh, middle, low = np.uint64(0), np.uint64(0), coefficients[0]
    for a, power in ((coefficients[1], x), (coefficients[2], x2), (coefficients[3], x3)):
        a1, a0, b1, b0 = a >> _HALF, a & _LOW, power >> _HALF, power & _LOW
        ll = a0 * b0
        hh += a1 * b1
        middle += a1 * b0 + a0 * b1 + (ll >> _HALF)  # in the end below 6 * 2^61 + 3 * 2^32
        low += ll & _LOW
    return _residue(_folded(hh, middle, low))


@njit(cache=True, nogil=True)
def powers(keys, x, x2, x3):
    """Write the first three powers of the keys modulo p."""
    for i in range(keys.size):
        first = _residue(keys[i])
        second = product(first, first)
        x[i], x2[i], x3[i] = first, second, product(second, first)


@njit(cache=True, nogil=True)
def _places(coefficients, x, x2, x3, width, at):
    """Write into `at` twice the cell of each key, plus one where its sign is -1."""
    for i in range(at.size):
        value = polynomial(coefficients, x[i], x2[i], x3[i])
        at[i] = ((((value >> _REST) * width) >> _HALF) << _ONE) | (value & _ONE)


@njit(cache=True, nogil=True)
def _count(row, moment, at, counts):
    """Add each count to its signed cell; return the row's sum of squares, `moment` before."""
    for i in range(at.size):
        minus = -np.int64(at[i] & _ONE)
        step = (counts[i] ^ minus) - minus
        cell = at[i] >> _ONE
        before = row[cell]
        moment += step * (step + np.int64(2) * before)
        row[cell] = before + step
    return moment


@njit(cache=True, nogil=True)
def add(cells, moments, coefficients, keys, counts):
    """Add each key's count to one signed cell of every row and keep the row's sum of squares."""
    width = np.uint64(cells.shape[1])
    room = np.empty((4, TOGETHER), np.uint64)
    for begin in range(0, keys.size, TOGETHER):
        some, times = keys[begin : begin + TOGETHER], counts[begin : begin + TOGETHER]
        x, x2, x3, at = room[0], room[1], room[2], room[3, : some.size]
        powers(some, x, x2, x3)
        for j in range(cells.shape[0]):
            _places(coefficients[j], x, x2, x3, width, at)
            moments[j] = _count(cells[j], moments[j], at, times)
