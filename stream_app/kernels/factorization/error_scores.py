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
