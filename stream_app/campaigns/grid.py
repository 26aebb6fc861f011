"""A vector on the integer grid, with a norm that is exactly within its bound.

    z = round(bound x),  sum z_i^2 <= bound^2 in integers

Rounding can lengthen a vector, so the clip comes after it, and it is the integers that are
measured: the sensitivity of the noisy sum holds for what is sent, not for a real number close to
it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MAX_BOUND = 2**15  # squares of 2^32 such integers add up without overflow


def to_grid(vector: NDArray[np.float64], bound: int) -> NDArray[np.int32]:
    """Return `vector` (n,) in units of 1 / bound, rounded, with an integer norm of at most `bound`.

    A vector of norm above 1 is shortened to it. Raises ValueError for a bound outside 1 .. 2^15 or
    a vector that is not finite.
    """
    if not 1 <= bound <= MAX_BOUND:
        raise ValueError(f"bound {bound}: give 1 to {MAX_BOUND}")
    if not np.isfinite(vector).all():
        raise ValueError("a contribution holds finite numbers only")
    largest = float(np.abs(vector).max(initial=0.0))
    if largest == 0.0:
        return np.zeros(len(vector), np.int32)
    # Divided by the largest entry first: the squares of huge or tiny ones leave the floats.
    length = float(np.sqrt(np.square(vector / largest).sum()))
    scaled = vector / largest * (bound * min(largest, 1 / length))
    rounded = np.rint(scaled).astype(np.int64)
    excess = 2.0**-40
    while not is_within(rounded, bound):  # ends: below 1/2 everything rounds to 0
        scaled = scaled * (1 - excess)
        rounded = np.rint(scaled).astype(np.int64)
        excess = min(2 * excess, 0.5)
    return rounded.astype(np.int32)


def is_within(integers: NDArray[np.integer], bound: int) -> bool:
    """Return whether the L2 norm of integers of absolute value up to 2^15 is at most `bound`,
    exactly."""
    wide = integers.astype(np.int64)
    if int(np.abs(wide).max(initial=0)) > bound:
        return False
    return int(np.square(wide).sum()) <= bound * bound
