"""Priors over the levels of a rating, tabulated over their mean and their width.

    x_v  = 1 + h v,  h = 4 / (L - 1)            the rating of level v, v = 0 .. L-1
    pi_v ~ exp(a v - h^2 v^2 u / 2)             a normal of precision u = 1 / V, at the levels

a is chosen such that the mean of pi is t: the prior of the least information with this mean and
this curvature. The table holds pi for t on 75 points of 1.15 .. 4.85 and u on 41 points of 0 .. 10,

    table[((j T + i) (L + 1)) ...] = pi_0 .. pi_{L-1}, sum_v pi_v v^2        flat float64

Between the points pi is interpolated in both, which is a mixture of four priors with t for its
mean: exactly a prior, whose variance is within .01 or 2 % of that of the normal itself.
A table of L levels has 24.6 (L + 1) kB. It is made of IEEE additions and multiplications alone, so
it has the same bits on every machine.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.machine.exponentials import exponential

INSIDE_LOW, INSIDE_HIGH = 1.15, 4.85
MEANS, WIDTHS = 75, 41
MEANS_PER_STAR = (MEANS - 1) / (INSIDE_HIGH - INSIDE_LOW)
WIDTHS_PER_PRECISION = 4.0
_STEPS = 60  # halvings of the interval of a: to the last bit
_STEEPEST = 400.0  # |a|: e^a is the odds of neighbours


@njit(cache=True, nogil=True)
def _fill(a, curvature, levels, pi):
    """Write pi of slope a into pi (L,) and return its mean, in levels."""
    highest = -np.inf
    for v in range(levels):
        pi[v] = a * v - curvature * (v * v)
        highest = max(highest, pi[v])
    total = 0.0
    for v in range(levels):
        pi[v] = exponential(pi[v] - highest)
        total += pi[v]
    mean = 0.0
    for v in range(levels):
        pi[v] /= total
        mean += pi[v] * v
    return mean


@njit(cache=True, nogil=True)
def tabulate(levels):
    """Return the table of priors over `levels` levels (2 or more), flat."""
    table = np.empty(WIDTHS * MEANS * (levels + 1))
    h = 4.0 / (levels - 1)
    for j in range(WIDTHS):
        curvature = 0.5 * h * h * (j / WIDTHS_PER_PRECISION)
        for i in range(MEANS):
            wanted = (INSIDE_LOW + i / MEANS_PER_STAR - 1.0) / h
            at = (j * MEANS + i) * (levels + 1)
            pi = table[at : at + levels]
            low, high = -_STEEPEST, _STEEPEST + 2.0 * curvature * levels
            for _ in range(_STEPS):
                a = 0.5 * (low + high)
                if _fill(a, curvature, levels, pi) < wanted:
                    low = a
                else:
                    high = a
            squares = 0.0
            for v in range(levels):
                squares += pi[v] * (v * v)
            table[at + levels] = squares
    return table


@njit(cache=True, nogil=True, inline="always")
def between(x, points):
    """Return the place below x (0 .. points - 2) of two neighbours and the weight of the other."""
    at = min(np.int64(x), points - 2)
    return at, x - at
