"""e^x of IEEE additions and multiplications only: the same bits on every machine."""

from __future__ import annotations

import numpy as np
from numba import njit

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
