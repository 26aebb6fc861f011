"""One lesson of the online learner: predict, decode, and a scalar Kalman step (one variance for each entity).

    rhat = mu + b_u + b_i + p.q                          the prediction, clipped to 1 .. 5 when told
    T    = vbu + vbi + vu |q|^2 + vi |p|^2 + kappa d vu vi        its variance
    S    = noise + T,   V = V0 + cT T                    of a rating, and of the prior over levels
    e, rho = what the report says                        (`channel.py`; a clean report: e = r - t, rho = 1)
    mu  += k e,  vmu -= k vmu rho,                       k = vmu / (S + vmu)
    b   += (vb / S)(e - lamb rho b),                     vb -= vb^2 rho / S
    p   += (vu / S)(e q - lam rho p),                    vu -= kappa vu^2 |q|^2 rho / S
    q   += (vi / S)(e p - lam rho q), p before the step, vi -= kappa vi^2 |p|^2 rho / S

The report's noise enters through e and rho alone: a report that says little moves little and narrows
little. For rho = 1 it is the clean learner. rho may be negative: a surprise makes the model less sure;
variances never pass their first value. An event with e^2 > clip is refused: nothing changes.

Functions here work on numbers and short vectors; the event loops of the layouts call them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.channel import HIGHEST, INSIDE_HIGH, INSIDE_LOW, LOWEST, decode
from stream_app.kernels.lanes import add, multiply, scale, total

MEAN, MEAN_VARIANCE = 0, 1  # places in the array `overall`
BIAS_LIMIT = 8.0  # two widths of the scale: no honest bias comes near
LEAST_VARIANCE = 1e-7


@njit(cache=True, nogil=True, inline="always")
def dot(p, q):
    """Return p.q of two vectors in lanes as float64."""
    return np.float64(total(multiply(p, q)))


@njit(cache=True, nogil=True, inline="always")
def move(p, q, along, back):
    """Return along * q - back * p, the step of vector p."""
    return add(scale(q, np.float32(along)), scale(p, np.float32(-back)))


@njit(cache=True, nogil=True, inline="always")
def hear(rhat, T, z, c, k, likelihood, alphabets, levels, exact):
    """Return (e, rho, refused) of report z through channel c; refused also where z or c is unknown."""
    e = 0.0
    rho = 0.0
    refused = True
    if c < alphabets.size and z < alphabets[c]:
        if exact[c]:
            x = LOWEST + (HIGHEST - LOWEST) / (levels[c] - 1) * z
            e = x - min(max(rhat, INSIDE_LOW), INSIDE_HIGH)
            rho = 1.0
        else:
            e, rho = decode(rhat, k.prior_variance + k.prior_slope * T, z, likelihood[c], levels[c])
        refused = e * e > k.clip
    return e, rho, refused


@njit(cache=True, nogil=True, inline="always")
def within(x, low, high):
    """Return x held within low .. high."""
    return min(max(x, low), high)


@njit(cache=True, nogil=True, inline="always")
def step_bias(b, vb, e, rho, per_S, shrink, first):
    """Return the bias and its variance after the lesson."""
    gain = vb * per_S
    b = within(b + gain * (e - shrink * rho * b), -BIAS_LIMIT, BIAS_LIMIT)
    return b, within(vb - gain * vb * rho, min(LEAST_VARIANCE, first), first)


@njit(cache=True, nogil=True, inline="always")
def step_variance(v, other, rho, per_S, coupling, first):
    """Return a vector's variance after the lesson; other: squared norm of the vector across."""
    return within(v - coupling * v * v * other * rho * per_S, min(LEAST_VARIANCE, first), first)


@njit(cache=True, nogil=True, inline="always")
def step_mean(overall, e, rho, S):
    """Move the overall mean in place."""
    gain = overall[MEAN_VARIANCE] / (S + overall[MEAN_VARIANCE])
    overall[MEAN] = within(overall[MEAN] + gain * e, LOWEST, HIGHEST)
    overall[MEAN_VARIANCE] = max(overall[MEAN_VARIANCE] * (1.0 - gain * rho), 0.0)
