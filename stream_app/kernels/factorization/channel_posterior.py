"""Posterior of a rating given its report: assumed density filtering through the exact channel.

    x_v  = 1 + h v,  h = 4 / (L - 1)            the rating of level v, v = 0 .. L-1
    t    = clip(rhat, 1.15, 4.85)               the prediction, inside the scale
    pi_v ~ exp(-(x_v - c)^2 / 2V)               prior, c such that its mean is t
    post ~ pi_v P(z | v)                        Bayes through the channel
    e    = mean(post) - mean(pi)                the decoded error
    rho  = max(1 - var(post) / var(pi), -1)     the share of the uncertainty that the report removed

The levels are evenly spaced, so pi_{v+1} / pi_v = exp((c - x_v - h/2) h / V) falls by the constant
factor exp(-h^2 / V) from one level to the next: a whole prior costs two exponentials. c is found
by three Newton steps from c = t (d mean / d c = var / V). Of two levels the prior is a coin, whose
mean decides it: pi_1 / pi_0 = (t - 1) / (5 - t), whatever V.

A channel that reports the level itself has a point for its posterior: e = x_z - t and rho = 1.

Where presence is protected as well, a report may come from a cell without a rating:

    P(z) = g P(z | rated) + (1 - g) P(z | nothing)        g: prior that there is a rating
    w    = g P(z | rated) / P(z)                          that there is one, given the report

and the rating keeps its prior with probability 1 - w. Mean and variance of the mixture of the two:

    e    = w (mean(post) - mean(pi))
    rho  = w (1 - var(post) / var(pi)) - w (1 - w) (mean(post) - mean(pi))^2 / var(pi)

`exponential` is made of IEEE additions and multiplications only: the same bits on every machine.
"""

from __future__ import annotations

import numpy as np
from numba import njit

LOWEST, HIGHEST = 1.0, 5.0
START, ALPHABET, LEVELS, EXACT = range(4)  # columns of `facts`, the channels' numbers
INSIDE_LOW, INSIDE_HIGH = 1.15, 4.85
_LEAST_VARIANCE = 1e-3
_STEPS = 3
_PER_LN2 = 1.4426950408889634
_LN2_HIGH = 0.6931471803691238  # 32 bits of ln 2, so that n * _LN2_HIGH is exact
_LN2_LOW = 1.9082149292705877e-10
_TWO_TO = np.ldexp(1.0, np.arange(-1022, 1024))


@njit(cache=True, nogil=True, inline="always")
def exponential(x):
    """Return e^x for x in -700 .. 700 (clipped to it), relative error below 1e-11."""
    x = min(max(x, -700.0), 700.0)
    n = int(x * _PER_LN2 + 1024.5) - 1024
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 + r) + r2 * (0.5 + r * (1.0 / 6.0))
    middle = (1.0 / 24.0 + r * (1.0 / 120.0)) + r2 * (1.0 / 720.0 + r * (1.0 / 5040.0))
    high = (1.0 / 40320.0 + r * (1.0 / 362880.0)) + r2 * (1.0 / 3628800.0)
    return (low + r4 * (middle + r4 * high)) * _TWO_TO[n + 1022]


@njit(cache=True, nogil=True, error_model="numpy")
def update_posterior(rhat, V, row, likelihood, levels, priors, n):
    """Return (e, rho, P(z)) of the report at `row`, prior centred on prediction rhat, spread V.

    likelihood: (R, 1 + >= levels) float64, first P(z | nothing), 0 where presence is public, and
    then g = priors[n] is not read; V >= 0.1. (The index of g is passed and not its value: the
    caller's loop would otherwise spill registers.)
    """
    t = min(max(rhat, INSIDE_LOW), INSIDE_HIGH)
    h = (HIGHEST - LOWEST) / (levels - 1)
    slope = h / V
    fall = exponential(-h * slope)
    c = t
    two = levels == 2
    first = (t - LOWEST) / (HIGHEST - t) if two else exponential((c - LOWEST - 0.5 * h) * slope)
    m0 = 0.0
    q0 = 0.0
    for step in range(_STEPS, _STEPS + 1) if two else range(_STEPS + 1):
        pi = 1.0
        ratio = first
        s0 = 1.0
        s1 = 0.0
        s2 = 0.0
        for v in range(1, levels):
            pi *= ratio
            ratio *= fall
            s0 += pi
            s1 += pi * v
            s2 += pi * (v * v)
        m0 = s1 / s0
        q0 = max(h * h * (s2 / s0 - m0 * m0), _LEAST_VARIANCE)
        m0 = LOWEST + h * m0
        if step < _STEPS:
            move = min(max((t - m0) * V / q0, -2.0), 2.0)
            c = min(max(c + move, -6.0), 12.0)
            first = exponential((c - LOWEST - 0.5 * h) * slope)
    prior = s0
    pi = 1.0
    ratio = first
    s0 = likelihood[row, 1]
    s1 = 0.0
    s2 = 0.0
    for v in range(1, levels):
        pi *= ratio
        ratio *= fall
        post = pi * likelihood[row, v + 1]
        s0 += post
        s1 += post * v
        s2 += post * (v * v)
    none = likelihood[row, 0]
    g = np.float64(priors[n]) if none > 0.0 else 1.0
    if not s0 > 0.0:  # a report that no level can cause carries no information
        return 0.0, 0.0, (1.0 - g) * none if none > 0.0 else 0.0
    probability = s0 / prior
    m1 = s1 / s0
    q1 = max(h * h * (s2 / s0 - m1 * m1), 0.0)
    e = LOWEST + h * m1 - m0
    rho = 1.0 - q1 / q0
    if none > 0.0:
        rated = g * probability
        probability = rated + (1.0 - g) * none
        w = rated / probability if probability > 0.0 else 0.0
        rho = w * rho - w * (1.0 - w) * e * e / q0
        e *= w
    return e, max(rho, -1.0), probability
