"""Posterior of a rating given its report: assumed density filtering through the exact channel.

    x_v  = 1 + h v,  h = 4 / (L - 1)            the rating of level v, v = 0 .. L-1
    t    = clip(rhat, 1.15, 4.85)               the prediction, inside the scale
    pi_v                                        prior with mean t, a normal of variance V at the
                                                levels, from a table (`level_priors.py`)
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
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.factorization.posterior.level_priors import (
    INSIDE_HIGH,
    INSIDE_LOW,
    MEANS,
    MEANS_PER_STAR,
    WIDTHS,
    WIDTHS_PER_PRECISION,
    between,
)

LOWEST, HIGHEST = 1.0, 5.0
START, ALPHABET, LEVELS, EXACT, PRIORS = range(5)  # columns of `facts`, the channels' numbers
_LEAST_VARIANCE = 1e-3


@njit(cache=True, nogil=True, error_model="numpy")
def update_posterior(rhat, V, row, likelihood, table, facts, c, priors, n):
    """Return (e, rho, P(z)) of the report at `row`, prior of mean rhat and spread V.

    likelihood: (R, 1 + >= levels) float64, first P(z | nothing), 0 where presence is public, and
    then g = priors[n] is not read; V >= 0.1. table: the tabulated priors (`level_priors.py`);
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
