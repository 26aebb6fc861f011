"""Products of small matrices with one order of additions: what BLAS leaves to the processor.

All float64; rows are added from the first to the last.
"""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def weighted_gram(left, weights, right, out):
    """Write sum_i weights[i] left[i, a] right[i, b] to out[a, b]."""
    out[:] = 0.0
    for i in range(left.shape[0]):
        for a in range(left.shape[1]):
            x = weights[i] * left[i, a]
            for b in range(right.shape[1]):
                out[a, b] += x * right[i, b]


@njit(cache=True, nogil=True, error_model="numpy")
def product(left, right, out):
    """Write left @ right to out."""
    for i in range(left.shape[0]):
        for b in range(right.shape[1]):
            out[i, b] = 0.0
        for a in range(left.shape[1]):
            x = left[i, a]
            for b in range(right.shape[1]):
                out[i, b] += x * right[a, b]
