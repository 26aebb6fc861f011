"""Values of cells and vectors before the first rating: from hashes, exactly, never zero.

A zero start is a saddle of the factorization (both gradients vanish), so every float starts near

    x = scale * (2 * (sum of four uniform 16-bit words) - 262140 + 1)

close to normal; the odd number is never zero. Its standard deviation is

    scale * 2 * sqrt(4 (2^32 - 1) / 12)
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.scalars import hash64

UNIT = 2.0 * ((2.0**32 - 1.0) / 3.0) ** 0.5  # standard deviation of `odd`
_LOW = np.uint64(0xFFFF)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True, inline="always")
def odd(h):
    """Return an odd whole number from hash h, roughly normal with deviation `UNIT`, as float64."""
    total = (
        (h & _LOW)
        + ((h >> np.uint64(16)) & _LOW)
        + ((h >> np.uint64(32)) & _LOW)
        + (h >> np.uint64(48))
    )
    return 2.0 * np.float64(np.int64(total)) - 262139.0


@njit(cache=True, nogil=True, inline="always")
def cell(salt, scale, x):
    """Return the initial value of cell x, of deviation scale * UNIT."""
    return np.float32(scale * odd(hash64(hash64(salt) + np.uint64(x) * _GOLDEN)))


@njit(cache=True, nogil=True)
def fill(cells, salt, scale):
    """Fill the flat `cells` with their initial values."""
    for x in range(cells.size):
        cells[x] = cell(salt, scale, x)


@njit(cache=True, nogil=True, inline="always")
def component(key_hash, c, scale):
    """Return component c of the initial vector of the entity whose key hashes to key_hash."""
    return np.float32(scale * odd(hash64(key_hash + np.uint64(c) * _GOLDEN)))
