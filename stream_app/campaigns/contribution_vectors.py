"""Contributions as vectors: a symmetric matrix as one of the same norm, and a vector on the grid.

The triangle is the diagonal of a matrix A, then sqrt 2 times each pair:

    |vector|^2 = sum_i A_ii^2 + sum_{i<j} 2 A_ij^2 = |A|_F^2

Noise of one size on the vector is then, on the matrix, a Gaussian orthogonal ensemble: variance s^2
off the diagonal and 2 s^2 on it, whose spectrum ends at 2 s sqrt n (Wigner 1958).

On the integer grid a vector has a norm that is exactly within its bound:

    z = round(bound x),  sum z_i^2 <= bound^2 in integers

Rounding can lengthen a vector, so the clip comes after it, and it is the integers that are
measured: the sensitivity of the noisy sum holds for what is sent, not for a real number close to
it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

ROOT_2 = math.sqrt(2.0)
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
    found, places = np.zeros(len(vector), np.int32), np.flatnonzero(vector)
    scaled = vector[places] / largest * (bound * min(largest, 1 / length))
    rounded = np.rint(scaled).astype(np.int64)
    excess = 2.0**-40
    while not is_within(rounded, bound):  # ends: below 1/2 everything rounds to 0
        scaled = scaled * (1 - excess)
        rounded = np.rint(scaled).astype(np.int64)
        excess = min(2 * excess, 0.5)
    found[places] = rounded
    return found


def is_within(integers: NDArray[np.integer], bound: int) -> bool:
    """Return whether the L2 norm of integers of absolute value up to 2^15 is at most `bound`,
    exactly."""
    wide = integers.astype(np.int64)
    if int(np.abs(wide).max(initial=0)) > bound:
        return False
    return int(np.square(wide).sum()) <= bound * bound


def triangle_length(items: int) -> int:
    """Return the length of the vector of an items x items matrix."""
    return items * (items + 1) // 2


def triangle_items(size: int) -> int:
    """Return the number of items of a vector; ValueError for a length of none."""
    items = (math.isqrt(8 * size + 1) - 1) // 2
    if size < 1 or triangle_length(items) != size:
        raise ValueError(f"{size} integers: no triangle has as many")
    return items


def pair_places(places: NDArray[np.intp], items: int) -> NDArray[np.intp]:
    """Return where in the vector each pair of `places` (k,), rising, stands: k (k - 1) / 2."""
    first, second = np.triu_indices(len(places), 1)
    i, j = places[first], places[second]
    return np.asarray(items + i * (2 * items - i - 1) // 2 + (j - i - 1))


def symmetric_matrix(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the symmetric matrix of a vector."""
    items = triangle_items(len(vector))
    found = np.zeros((items, items))
    found[np.triu_indices(items, 1)] = vector[items:] / ROOT_2
    found += found.T
    found[np.diag_indices(items)] = vector[:items]
    return found
