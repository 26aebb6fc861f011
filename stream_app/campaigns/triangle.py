"""A symmetric matrix as a vector of the same norm: its diagonal, then sqrt 2 times each pair.

    |vector|^2 = sum_i A_ii^2 + sum_{i<j} 2 A_ij^2 = |A|_F^2

Noise of one size on the vector is then, on the matrix, a Gaussian orthogonal ensemble: variance s^2
off the diagonal and 2 s^2 on it, whose spectrum ends at 2 s sqrt n (Wigner 1958).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

ROOT_2 = math.sqrt(2.0)


def length(items: int) -> int:
    """Return the length of the vector of an items x items matrix."""
    return items * (items + 1) // 2


def items_of(size: int) -> int:
    """Return the number of items of a vector; ValueError for a length of none."""
    items = (math.isqrt(8 * size + 1) - 1) // 2
    if size < 1 or length(items) != size:
        raise ValueError(f"{size} integers: no triangle has as many")
    return items


def pair_places(places: NDArray[np.intp], items: int) -> NDArray[np.intp]:
    """Return where in the vector each pair of `places` (k,), rising, stands: k (k - 1) / 2."""
    first, second = np.triu_indices(len(places), 1)
    i, j = places[first], places[second]
    return np.asarray(items + i * (2 * items - i - 1) // 2 + (j - i - 1))


def matrix(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the symmetric matrix of a vector."""
    items = items_of(len(vector))
    found = np.zeros((items, items))
    found[np.triu_indices(items, 1)] = vector[items:] / ROOT_2
    found += found.T
    found[np.diag_indices(items)] = vector[:items]
    return found
