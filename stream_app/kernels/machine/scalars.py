"""Scalar functions with the same bits in every process, on every machine and in every language.

    hash64(x)      splitmix64's finalizer: a bijection of 64 bits in which every input bit moves
                   every output bit
    salted(k, s)   hash64(hash64(k + s * golden)): an independent-looking hash of k for each salt s
    popcount(x)    number of one bits of x: an LLVM instruction, and Python integers uncompiled
    exponential(x) e^x of IEEE additions and multiplications only
    bounded(h, n)  floor(h' * n / 2^32) with h' the upper 32 bits of h: a slot in 0 .. n-1 for
                   any n <= 2^32

Keys and salts are public configuration: no privacy argument may rest on them being secret.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import intrinsic, overload

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)


@njit(cache=True, nogil=True, inline="always")
def hash64(x: np.uint64) -> np.uint64:
    """Return the 64-bit finalizer of splitmix64 at x."""
    x = (x ^ (x >> np.uint64(30))) * _M1
    x = (x ^ (x >> np.uint64(27))) * _M2
    return x ^ (x >> np.uint64(31))


@njit(cache=True, nogil=True, inline="always")
def salted(key: np.uint64, salt: np.uint64) -> np.uint64:
    """Return the hash of `key` under `salt`."""
    return hash64(hash64(key + salt * GOLDEN))


@njit(cache=True, nogil=True, inline="always")
def bounded(h: np.uint64, n: np.uint64) -> np.uint64:
    """Return a slot in 0 .. n-1 from the upper half of a hash; n <= 2^32."""
    return ((h >> np.uint64(32)) * n) >> np.uint64(32)


PRIME = np.uint64(2**61 - 1)


@intrinsic
def _ones(_typing, x):
    def generate(_context, builder, _signature, arguments):
        return builder.ctpop(arguments[0])

    return (types.uint64(types.uint64), generate) if x == types.uint64 else None


def popcount(x: np.uint64) -> np.uint64:
    """Return the number of one bits of a 64-bit word."""
    return np.uint64(int(x).bit_count())


@overload(popcount)
def _compiled_ones(x):
    def compiled(x):
        return _ones(x)

    return compiled if x == types.uint64 else None


_PER_LN2 = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238  # 32 bits of ln 2, so that n * _LN2_HIGH is exact
_LN2_LOW = 1.9082149292705877e-10
_TWO_TO = np.ldexp(1.0, np.arange(-1022, 1024))


@njit(cache=True, nogil=True, inline="always")
def exponential(x):
    """Return e^x for x in -700 .. 700 (clipped to it), relative error below 1e-11."""
    x = min(max(x, -700.0), 700.0)
    n = int(x * _PER_LN2 + 1024.5) - 1024
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 + r) + r2 * (0.5 + r * (1.0 / 6.0))
    middle = (1.0 / 24.0 + r * (1.0 / 120.0)) + r2 * (1.0 / 720.0 + r * (1.0 / 5040.0))
    high = (1.0 / 40320.0 + r * (1.0 / 362880.0)) + r2 * (1.0 / 3628800.0)
    return (low + r4 * (middle + r4 * high)) * _TWO_TO[n + 1022]
