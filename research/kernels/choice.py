"""Drawing one of several with given weights."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def choose(weights, uniform):
    """Return i with probability weights[i] / sum, for a uniform in [0, 1); one weight above 0."""
    total = 0.0
    for i in range(weights.size):
        total += weights[i]
    left = uniform * total
    last = 0
    for i in range(weights.size):
        if weights[i] > 0.0:
            last = i
            if left < weights[i]:
                return i
            left -= weights[i]
    return last  # what rounding leaves
