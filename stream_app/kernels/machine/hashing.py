"""Keyed 64-bit hashing, the same in every process, on every machine and in every language.

    hash64(x)      splitmix64's finalizer: a bijection of 64 bits in which every input bit moves
                   every output bit
    salted(k, s)   hash64(hash64(k + s * golden)): an independent-looking hash of k for each salt s
    bounded(h, n)  floor(h' * n / 2^32) with h' the upper 32 bits of h: a slot in 0 .. n-1 for
                   any n <= 2^32

Keys and salts are public configuration: no privacy argument may rest on them being secret.
"""

from __future__ import annotations

import numpy as np
from numba import njit

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
