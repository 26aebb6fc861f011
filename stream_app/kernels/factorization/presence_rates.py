"""Probability that a cell holds a rating: rates of items and users from debiased reports.

A report z of a channel that protects presence has weight y(z), unbiased for 1[there is a rating],
and its channel an information g, one over the variance of y. With sums over the reports so far

    r    = (R0 r0 + sum g y) / (R0 + sum g)                    the overall rate
    r_i  = (k r + sum_i g y) / (k + sum_i g),  k = 1 / (s r)^2    of item i, shrunken, s = 0.5
    f_u  = activity of user u: a priori ln f is normal with deviation 0.9 and E f = 1, and
           sum_u g y has mean f sum_u g r_i and variance sum_u g; the posterior mean on a grid
    prior = f_u r_i                                            that there is a rating, clipped

A whole record is counted before the priors of its cells are computed, and records come in canonical
order, so the result does not depend on batch boundaries.

tags (S,) uint32, sums (S, 3) float64: a slot for each user and item (`bias_table.slot_of`) with the
sums of g y, of g, and (users) of g r_i; overall (2,) float64: g y and g over everything. What is
written is marked in the `..._pages` of its array (`dirty_pages.py`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.factorization.bias_table import slot_of, tag_of
from stream_app.kernels.factorization.channel_posterior import exponential
from stream_app.kernels.machine.dirty_pages import WORDS, touch_float, touch_triple
from stream_app.kernels.machine.hashing import hash64

FIRST_RATE, FIRST_INFORMATION = 0.1, 100.0
LEAST, MOST = 0.001, 0.95  # of a rate and of a prior
ITEM_SPREAD, USER_SPREAD = 0.5, 0.9
LOG_ACTIVITY = np.arange(-30, 21) / 10.0  # the grid of ln f
ACTIVITY = np.exp(LOG_ACTIVITY).round(12)  # the last bits of exp differ between machines
LOG_PRIOR = -((LOG_ACTIVITY + USER_SPREAD**2 / 2) ** 2) / (2 * USER_SPREAD**2)
PRESENT, INFORMATION, EXPECTED = 0, 1, 2  # places in a row of `sums`


@njit(cache=True, nogil=True, inline="always")
def _clipped(x, low, high):
    return min(max(x, low), high)


@njit(cache=True, nogil=True, inline="always")
def _claimed_slot(tags, tags_pages, h):
    """Return the slot of a hash; claim it if it is free."""
    s = slot_of(tags, h)
    if tags[s] == 0:
        tags[s] = tag_of(h)
        touch_float(tags_pages, s)
    return s


@njit(cache=True, nogil=True)
def activity(present, information, expected):
    """Return the posterior mean of a user's activity, from the sums of the user's reports."""
    highest = -np.inf
    for n in range(LOG_ACTIVITY.size):
        miss = present - ACTIVITY[n] * expected
        highest = max(highest, LOG_PRIOR[n] - 0.5 * miss * miss / information)
    total = mean = 0.0
    for n in range(LOG_ACTIVITY.size):
        miss = present - ACTIVITY[n] * expected
        odds = exponential(LOG_PRIOR[n] - 0.5 * miss * miss / information - highest)
        total += odds
        mean += odds * ACTIVITY[n]
    return mean / total


@njit(cache=True, nogil=True)
def count_and_estimate(
    tags, sums, overall, tags_pages, sums_pages, salts, starts, information, weight,
    counts, users, items, reports, channels, priors,
):  # fmt: skip
    """Count the cells of each record in `sums`, then write the prior of each cell into `priors`.

    counts (n,) int64: cells of each record; the other columns (m,): one user and one channel in a
    record. A record whose channel has no information is not counted; its priors are 1.
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
        u = _claimed_slot(tags, tags_pages, hash64(users[begin] + salts[0]))
        touch_triple(sums_pages, u, WORDS)
        for n in range(begin, end):
            y = g * weight[starts[c] + reports[n]]
            i = _claimed_slot(tags, tags_pages, hash64(items[n] + salts[1]))
            touch_triple(sums_pages, i, WORDS)
            sums[i, PRESENT] += y
            sums[i, INFORMATION] += g
            sums[u, PRESENT] += y
            sums[u, INFORMATION] += g
            overall[PRESENT] += y
            overall[INFORMATION] += g
        present = FIRST_INFORMATION * FIRST_RATE + overall[PRESENT]
        r = _clipped(present / (FIRST_INFORMATION + overall[INFORMATION]), LEAST, MOST)
        k = 1.0 / (ITEM_SPREAD * r * ITEM_SPREAD * r)
        for n in range(begin, end):
            i = _claimed_slot(tags, tags_pages, hash64(items[n] + salts[1]))
            rate = (k * r + sums[i, PRESENT]) / (k + sums[i, INFORMATION])
            priors[n] = _clipped(rate, LEAST, MOST)
            sums[u, EXPECTED] += g * np.float64(priors[n])
        f = activity(sums[u, PRESENT], sums[u, INFORMATION], sums[u, EXPECTED])
        for n in range(begin, end):
            priors[n] = _clipped(f * np.float64(priors[n]), LEAST, MOST)
