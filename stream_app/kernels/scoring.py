"""Scoring predictions against reports, without the truth: one pass, no temporaries.

    reported[i] = (t_i - stars[c, z])^2
    debiased[i] = square[c, z] - 2 t_i value[c, z] + t_i^2     E[debiased | r] = (r - t)^2

t: (m,) float64;  mechanisms c, reports z: (m,) uint8;  tables: (C, Z) float64.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def score(t, mechanisms, reports, stars, value, square, reported, debiased):
    """Write both squared errors of each prediction."""
    for i in range(t.shape[0]):
        c, z = mechanisms[i], reports[i]
        miss = t[i] - stars[c, z]
        reported[i] = miss * miss
        debiased[i] = square[c, z] - 2.0 * t[i] * value[c, z] + t[i] * t[i]


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
