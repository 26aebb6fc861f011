"""How likely a cell is to hold a rating: rates of items and users, learned from debiased reports.

A report z of a channel that protects presence has weight y(z), unbiased for 1[there is a rating],
and its channel an information g, one over the variance of y. With sums over the reports so far

    r    = (R0 r0 + sum g y) / (R0 + sum g)                         the overall rate
    r_i  = (k r + sum_i g y) / (k + sum_i g),   k = 1 / (s_i r)^2         of item i, shrunken
    f_u  = (k' + sum_u g y) / (k' + sum_u g r_i),   k' = 1 / (s_u^2 r)    how busy user u is
    prior = f_u r_i                                 that there is a rating in cell (u, i), clipped

A record is counted as a whole before the priors of its cells are computed, and records come in
canonical order, so nothing depends on how they were cut into batches.

tags (S,) uint32, sums (S, 2) float64: a slot for each user and item (`scalars.slot_of`): the sum of
g y, and the sum of g (items) or g r_i (users); overall (2,) float64: both over everything.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.mixing import mix
from stream_app.kernels.scalars import slot_of, tag_of

FIRST_RATE, FIRST_INFORMATION = 0.1, 100.0
LEAST, MOST = 0.001, 0.95  # of a rate and of a prior
LEAST_BUSY, MOST_BUSY = 0.05, 20.0


@njit(cache=True, nogil=True, inline="always")
def _held(x, low, high):
    return min(max(x, low), high)


@njit(cache=True, nogil=True, inline="always")
def _claimed(tags, h):
    """Return the slot of a hash, taken if it was free."""
    s = slot_of(tags, h)
    if tags[s] == 0:
        tags[s] = tag_of(h)
    return s


@njit(cache=True, nogil=True)
def count_and_estimate(
    tags, sums, overall, salts, spreads, starts, information, weight,
    counts, users, items, reports, channels, priors,
):  # fmt: skip
    """Count the cells of each record in `sums`, then write the prior of each cell into `priors`.

    counts (n,) int64: cells of each record; the other columns (m,): one user and one channel in a
    record. A record whose channel has no information is left alone, its priors are 1.
    """
    end = 0
    for record in range(counts.size):
        begin, end = end, end + counts[record]
        if begin == end:
            continue
        c = channels[begin]
        g = information[c]
        if not g > 0.0:
            priors[begin:end] = 1.0
            continue
        for n in range(begin, end):
            y = g * weight[starts[c] + reports[n]]
            i = _claimed(tags, mix(items[n] + salts[1]))
            sums[i, 0] += y
            sums[i, 1] += g
            overall[0] += y
            overall[1] += g
        told = FIRST_INFORMATION * FIRST_RATE + overall[0]
        r = _held(told / (FIRST_INFORMATION + overall[1]), LEAST, MOST)
        k = 1.0 / (spreads[1] * r * spreads[1] * r)
        u = _claimed(tags, mix(users[begin] + salts[0]))
        for n in range(begin, end):
            i = _claimed(tags, mix(items[n] + salts[1]))
            rate = _held((k * r + sums[i, 0]) / (k + sums[i, 1]), LEAST, MOST)
            priors[n] = rate
            sums[u, 0] += g * weight[starts[c] + reports[n]]
            sums[u, 1] += g * rate
        k = 1.0 / (spreads[0] * spreads[0] * r)
        busy = _held((k + sums[u, 0]) / (k + sums[u, 1]), LEAST_BUSY, MOST_BUSY)
        for n in range(begin, end):
            priors[n] = _held(busy * np.float64(priors[n]), LEAST, MOST)
