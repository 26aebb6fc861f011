"""Scoring predictions against reports, without the truth: one pass, no temporaries.

    reported = (t - stars[row])^2
    debiased = square[row] - 2 t value[row] + t^2 weight[row]           E[debiased | r] = (r - t)^2

with 0 for `debiased` in the mean where there is no rating, and NaN for `stars` where the report
means "missing". The row of a report is starts[channel] + report.

t, u: two predictions (m,) float64;  channels: (m,) uint16;  reports: (m,) uint8;  tables: (R,)
float64;  out: (6, >= m) float64.
"""

from __future__ import annotations

import numpy as np
from numba import njit

REPORTED, DEBIASED, OTHER_REPORTED, OTHER_DEBIASED, VALUE, WEIGHT = range(6)  # rows of `out`


@njit(cache=True, nogil=True)
def score(t, u, channels, reports, starts, stars, value, square, weight, out):
    """Write into `out` both squared errors of both predictions, and each report's value, weight."""
    for i in range(t.shape[0]):
        row = starts[channels[i]] + reports[i]
        x, y, w = stars[row], value[row], weight[row]
        out[REPORTED, i] = (t[i] - x) * (t[i] - x)
        out[DEBIASED, i] = square[row] - 2.0 * t[i] * y + t[i] * t[i] * w
        out[OTHER_REPORTED, i] = (u[i] - x) * (u[i] - x)
        out[OTHER_DEBIASED, i] = square[row] - 2.0 * u[i] * y + u[i] * u[i] * w
        out[VALUE, i] = y
        out[WEIGHT, i] = w


@njit(cache=True, nogil=True, error_model="numpy")
def item_means(sums, counts, rows, mean, pseudo, low, high, out):
    """Write into `out` (m,) mean + (sum - mean n) / (n + pseudo) of the items at `rows`, within
    low .. high; n below 0 counts as 0 in the divisor, and a row below 0 has no events."""
    for i in range(rows.shape[0]):
        row = rows[i]
        n, total = (counts[row], sums[row]) if row >= 0 else (0.0, 0.0)
        found = mean + (total - mean * n) / (max(n, 0.0) + pseudo)
        out[i] = min(max(found, low), high)


@njit(cache=True, nogil=True)
def learn_means(sums, counts, rows, values, weights, totals, squares):
    """Add values and weights, 1 each where there are none, to the items at `rows`, to the totals
    (weights, values) and to the squares (value^2, value weight, weight^2). A NaN is left out; a row
    below 0 is in the totals alone."""
    for i in range(rows.shape[0]):
        row, value = rows[i], values[i]
        if np.isnan(value):
            continue
        weight = weights[i] if weights.size else 1.0
        if row >= 0:
            sums[row] += value
            counts[row] += weight
        totals[0] += weight
        totals[1] += value
        squares[0] += value * value
        squares[1] += value * weight
        squares[2] += weight * weight


@njit(cache=True, nogil=True)
def pair(held_out, owed, learned):
    """Write to learned[i] whether event i pays for a held-out one before it; return what is owed.

    Every held-out event adds one to the debt, a learned event pays one where there is any.
    """
    for i in range(held_out.shape[0]):
        learned[i] = False
        if held_out[i]:
            owed += 1
        elif owed > 0:
            owed -= 1
            learned[i] = True
    return np.int64(owed)
