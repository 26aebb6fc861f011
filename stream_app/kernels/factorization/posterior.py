"""Posterior of a rating given its report: assumed density filtering through the exact channel.

    x_v  = 1 + h v,  h = 4 / (L - 1)            the rating of level v, v = 0 .. L-1
    t    = clip(rhat, 1.15, 4.85)               the prediction, inside the scale
    pi_v                                        prior with mean t, a normal of variance V at the
                                                levels, from a table (below)
    post ~ pi_v P(z | v)                        Bayes through the channel
    e    = mean(post) - t                       the decoded error
    rho  = max(1 - var(post) / var(pi), -1)     the share of the uncertainty that the report removed

A channel that reports the level itself has a point for its posterior: e = x_z - t and rho = 1. Of
two levels the prior is a coin, whose mean decides it, whatever V.

Where presence is protected as well, a report may come from a cell without a rating:

    P(z) = g P(z | rated) + (1 - g) P(z | nothing)        g: prior that there is a rating
    w    = g P(z | rated) / P(z)                          that there is one, given the report

and the rating keeps its prior with probability 1 - w. Mean and variance of the mixture of the two:

    e    = w (mean(post) - mean(pi))
    rho  = w (1 - var(post) / var(pi)) - w (1 - w) (mean(post) - mean(pi))^2 / var(pi)

Priors over the levels, tabulated over their mean and their width:

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

from stream_app.kernels.machine.scalars import exponential

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


LOWEST, HIGHEST = 1.0, 5.0
START, ALPHABET, LEVELS, EXACT, PRIORS = range(5)  # columns of `facts`, the channels' numbers
_LEAST_VARIANCE = 1e-3


@njit(cache=True, nogil=True, error_model="numpy")
def update_posterior(rhat, V, row, likelihood, table, facts, c, priors, n):
    """Return (e, rho, P(z)) of the report at `row`, prior of mean rhat and spread V.

    likelihood: (R, 1 + >= levels) float64, first P(z | nothing), 0 where presence is public, and
    then g = priors[n] is not read; V >= 0.1. table: the tabulated priors;
    c: the channel, a row of `facts`. (The index of g is passed and not its value: the caller's
    loop would otherwise spill registers.)
    """
    levels = facts[c, LEVELS]
    t = min(max(rhat, INSIDE_LOW), INSIDE_HIGH)
    i, x = between((t - INSIDE_LOW) * MEANS_PER_STAR, MEANS)
    j, y = between(min(WIDTHS_PER_PRECISION / V, WIDTHS - 1.0), WIDTHS)
    size = levels + 1
    a = facts[c, PRIORS] + (j * MEANS + i) * size
    b = a + MEANS * size
    w3 = x * y
    w2 = y - w3
    w1 = x - w3
    w0 = (1.0 - y) - w1
    s0 = 0.0
    s1 = 0.0
    s2 = 0.0
    for v in range(levels):
        pi = (w0 * table[a + v] + w1 * table[a + size + v]) + (
            w2 * table[b + v] + w3 * table[b + size + v]
        )
        post = pi * likelihood[row, v + 1]
        s0 += post
        s1 += post * v
        s2 += post * (v * v)
    squares = (w0 * table[a + levels] + w1 * table[a + size + levels]) + (
        w2 * table[b + levels] + w3 * table[b + size + levels]
    )
    none = likelihood[row, 0]
    g = np.float64(priors[n]) if none > 0.0 else 1.0
    if not s0 > 0.0:  # a report that no level can cause carries no information
        return 0.0, 0.0, (1.0 - g) * none if none > 0.0 else 0.0
    h = (HIGHEST - LOWEST) / (levels - 1)
    per_s0 = 1.0 / s0
    m0 = t - LOWEST
    m1 = s1 * per_s0
    q0 = max(h * h * squares - m0 * m0, _LEAST_VARIANCE)
    q1 = max(h * h * (s2 * per_s0 - m1 * m1), 0.0)
    e = h * m1 - m0
    rho = 1.0 - q1 / q0
    probability = s0
    if none > 0.0:
        rated = g * probability
        probability = rated + (1.0 - g) * none
        w = rated / probability if probability > 0.0 else 0.0
        rho = w * rho - w * (1.0 - w) * e * e / q0
        e *= w
    return e, max(rho, -1.0), probability
