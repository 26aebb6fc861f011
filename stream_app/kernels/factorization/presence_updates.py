"""Probability that a cell holds a rating: rates of items and users from debiased reports.

A report z of a channel that protects presence has weight y(z), unbiased for 1[there is a rating],
and its channel an information g, one over the variance of y. With sums over the reports so far

    r    = (R0 r0 + sum g y) / (R0 + sum g)                    the overall rate
    r_i  = (k r + sum_i g y) / (k + sum_i g),  k = 1 / (q - r^2)  of item i, shrunken
    q    = (A + (1 + 1/4) / r^2) / (B + 1 / r^4)                   the mean square of items' rates
    f_u  = activity of user u: a priori ln f is normal with deviation 0.9 and E f = 1, and
           sum_u g y has mean f sum_u g r_i and variance sum_u g; the posterior mean on a grid
    prior = f_u r_i                                            that there is a rating, clipped

A and B are the sums of g y sum_i g y and of g sum_i g over all cells, sum_i over the item's cells
before: the noise of two reports is independent, so A / B is unbiased for q. A priori the rates
deviate by r / 2, and q - r^2 is held within .05 r^2 .. 9 r^2. A rate shrunk too much is more than
a loss of precision: where the prior is below the true rate, decoding moves the item away from
mid-scale.

The mean rating is found in the same way. value(z) is unbiased for the rating where there is one and
for 0 where there is none, so with V = sum g value, W = sum g y over all cells

    m    = V / W                                               the debiased mean of the reports
    s^2  = sum g^2 (value - m y)^2 / W^2                       its variance, from the same reports

A prediction learned through such a channel moves slowly, because most reports are fakes: starts
for the mean are issued with m shrunken to what ratings are on average,

    v    = 1 / (1 / v0 + 1 / s^2),   v (m0 / v0 + m / s^2)     with m0 = 3.85, v0 = 0.25

the first start, (m0, v0), before the first record, and further ones before the cells of a record
after which v has fallen to a quarter. Ratings are given to what people chose, so their mean lies
above mid-scale: 3.5 to 4.3 on the six data sets of `tests/fixtures/data_sets.py`.

A whole record is counted before the priors of its cells are computed, and records come in canonical
order, so the result does not depend on batch boundaries.

tags (S,) uint32, sums (S, 3) float64: a slot for each user and item (`bias_table.slot_of`) with the
sums of g y, of g, and (users) of g r_i; overall (9,) float64, over everything: g y, g, g value, the
squares and the product of the first and the third, v of the last start, 0 for none, A and B. What
is about to be written is marked in the `..._pages` of its array (`dirty_pages.py`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.factorization.bias_table import slot_of, tag_of
from stream_app.kernels.factorization.posterior import HIGHEST, LOWEST
from stream_app.kernels.machine.dirty_pages import WORDS, touch_float, touch_triple
from stream_app.kernels.machine.scalars import exponential, hash64

FIRST_RATE, FIRST_INFORMATION = 0.1, 100.0
LEAST, MOST = 0.001, 0.95  # of a rate and of a prior
ITEM_SPREAD, USER_SPREAD = 0.5, 0.9
LEAST_SPREAD, MOST_SPREAD = 0.05, 9.0  # of q - r^2, in r^2
LOG_ACTIVITY = np.arange(-30, 21) / 10.0  # the grid of ln f
ACTIVITY = np.exp(LOG_ACTIVITY).round(12)  # the last bits of exp differ between machines
LOG_PRIOR = -((LOG_ACTIVITY + USER_SPREAD**2 / 2) ** 2) / (2 * USER_SPREAD**2)
PRESENT, INFORMATION, EXPECTED = 0, 1, 2  # places in a row of `sums`
VALUE, PRESENT_SQUARED, VALUE_SQUARED, PRODUCT, LAST = 2, 3, 4, 5, 6  # further ones in `overall`
PAIRS, PAIRED = 7, 8  # A and B
FIRST_MEAN, FIRST_VARIANCE = 3.85, 0.25  # stars, and stars squared
MOST_STARTS = 64  # of all time: 4^-64 is below the last bit of any variance


@njit(cache=True, nogil=True, inline="always")
def _clipped(x, low, high):
    return min(max(x, low), high)


@njit(cache=True, nogil=True, inline="always")
def _claimed_slot(tags, tags_pages, h):
    """Return the slot of a hash; claim it if it is free."""
    s = slot_of(tags, h)
    if tags[s] == 0:
        touch_float(tags_pages, s)
        tags[s] = tag_of(h)
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
def debiased_mean(overall):
    """Return m, within 1 .. 5, and s^2; an infinite variance where there is none."""
    rated = overall[PRESENT]
    if not rated > 0.0:
        return 0.5 * (LOWEST + HIGHEST), np.inf
    m = overall[VALUE] / rated
    squares = overall[VALUE_SQUARED] - 2.0 * m * overall[PRODUCT] + m * m * overall[PRESENT_SQUARED]
    return _clipped(m, LOWEST, HIGHEST), max(squares, 0.0) / (rated * rated)


@njit(cache=True, nogil=True)
def next_start(overall):
    """Return the mean and the variance of a start that is due; a variance of 0 where none is."""
    if overall[LAST] == 0.0:
        return FIRST_MEAN, FIRST_VARIANCE
    m, variance = debiased_mean(overall)
    if not variance > 0.0:
        return m, 0.0
    v = 1.0 / (1.0 / FIRST_VARIANCE + 1.0 / variance)
    if v > 0.25 * overall[LAST]:
        return m, 0.0
    return v * (FIRST_MEAN / FIRST_VARIANCE + m / variance), v


@njit(cache=True, nogil=True)
def spread(overall, r):
    """Return q - r^2, the variance of the items' rates around the overall rate r."""
    per = 1.0 / (r * r)
    q = (overall[PAIRS] + (1.0 + ITEM_SPREAD * ITEM_SPREAD) * per) / (overall[PAIRED] + per * per)
    return _clipped(q - r * r, LEAST_SPREAD * r * r, MOST_SPREAD * r * r)


@njit(cache=True, nogil=True)
def count_and_estimate(
    tags, sums, overall, tags_pages, sums_pages, salts, starts, information, weight, value,
    counts, users, items, reports, channels, priors, found,
):  # fmt: skip
    """Count the cells of each record in `sums`, then write the prior of each cell into `priors`;
    return how many starts were written into `found` (MOST_STARTS, 3): first cell, mean, v.

    counts (n,) int64: cells of each record; the other columns (m,): one user and one channel in a
    record. A record whose channel has no information is not counted; its priors are 1.
    """
    end = 0
    many = 0
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
            row = starts[c] + reports[n]
            y = g * weight[row]
            x = g * value[row]
            i = _claimed_slot(tags, tags_pages, hash64(items[n] + salts[1]))
            touch_triple(sums_pages, i, WORDS)
            overall[PAIRS] += y * sums[i, PRESENT]
            overall[PAIRED] += g * sums[i, INFORMATION]
            sums[i, PRESENT] += y
            sums[i, INFORMATION] += g
            sums[u, PRESENT] += y
            sums[u, INFORMATION] += g
            overall[PRESENT] += y
            overall[INFORMATION] += g
            overall[VALUE] += x
            overall[PRESENT_SQUARED] += y * y
            overall[VALUE_SQUARED] += x * x
            overall[PRODUCT] += x * y
        mean, variance = next_start(overall)
        if variance > 0.0 and many < MOST_STARTS:
            found[many, 0] = begin
            found[many, 1] = mean
            found[many, 2] = variance
            many += 1
            overall[LAST] = variance
        present = FIRST_INFORMATION * FIRST_RATE + overall[PRESENT]
        r = _clipped(present / (FIRST_INFORMATION + overall[INFORMATION]), LEAST, MOST)
        k = 1.0 / spread(overall, r)
        for n in range(begin, end):
            i = _claimed_slot(tags, tags_pages, hash64(items[n] + salts[1]))
            rate = (k * r + sums[i, PRESENT]) / (k + sums[i, INFORMATION])
            priors[n] = _clipped(rate, LEAST, MOST)
            sums[u, EXPECTED] += g * np.float64(priors[n])
        f = activity(sums[u, PRESENT], sums[u, INFORMATION], sums[u, EXPECTED])
        for n in range(begin, end):
            priors[n] = _clipped(f * np.float64(priors[n]), LEAST, MOST)
    return many
