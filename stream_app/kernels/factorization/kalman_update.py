"""Update of the online learner by one rating: a Kalman step with one variance for each entity.

    rhat = mu + b_u + b_i + p.q                          the prediction, reported clipped to 1 .. 5
    T    = vbu + vbi + vu |q|^2 + vi |p|^2 + kappa d vu vi        its variance
    S    = noise + T,   V = V0 + cT T                    of a rating, and of the prior over levels
    e, rho   from the posterior (`posterior.py`)         a clean report: e = r - t, rho = 1
    mu  += k e,  vmu -= k vmu rho,                       k = vmu / (S + vmu)
    b   += (vb / S)(e - lamb rho b),                     vb += c vb0 - vb^2 rho / S
    p   += (gu / S)(e q - lam rho p),                    vu -= kappa vu^2 |q|^2 rho / S
    q   += (gi / S)(e p - lam rho q), p before the step, vi -= kappa vi^2 |p|^2 rho / S
    g    = v (1 + h vb / vb0)                            the gain of a vector, h = `early_gain`

The report's noise enters through e and rho alone: an uninformative report changes estimates and
variances little. For rho = 1 it is the clean learner. rho may be negative: a surprising report
raises the variances, never above their initial value. Users and items change: each rating adds the
share c of the first variance vb0 to that of its two biases, as a random walk does (Kalman 1960), so
that vb settles at sqrt(c vb0 S / rho) and the past is forgotten. The variance of a vector hardly
falls before vectors have a length, so a vector moves further while the bias of its entity is
uncertain: search, then converge (Darken & Moody 1991). A cell that may be empty counts as
the fraction of a rating that its prior says. An event with e^2 > clip is refused: nothing changes.

Functions here work on numbers and short vectors; the event loops of the layouts call them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_app.kernels.factorization.bias_table import BIAS, BIAS_SHARE, SHARE
from stream_app.kernels.factorization.posterior import (
    ALPHABET,
    EXACT,
    HIGHEST,
    INSIDE_HIGH,
    INSIDE_LOW,
    LEVELS,
    LOWEST,
)
from stream_app.kernels.machine.simd import add, multiply, scale, total

MEAN, MEAN_VARIANCE = 0, 1  # places in the array `overall`
LEAST_SHARE = 1e-6
BIAS_LIMIT = 8.0  # two widths of the scale: no honest bias comes near


@njit(cache=True, nogil=True, inline="always")
def dot(p, q):
    """Return p.q of two SIMD vectors as float64."""
    return np.float64(total(multiply(p, q)))


@njit(cache=True, nogil=True, inline="always")
def move(p, q, along, back):
    """Return along * q - back * p, the step of vector p."""
    return add(scale(q, np.float32(along)), scale(p, np.float32(-back)))


@njit(cache=True, nogil=True, inline="always")
def vector_gain(variance, bias_share, k):
    """Return g of a vector whose entity has this share of its first bias variance left."""
    return variance * (1.0 + k.early_gain * np.float64(bias_share))


@njit(cache=True, nogil=True, inline="always")
def distance(levels):
    """Return the distance of neighbouring levels."""
    return (HIGHEST - LOWEST) / (levels - 1)


@njit(cache=True, nogil=True, inline="always")
def read_exactly(rhat, z, apart):
    """Return the error of prediction rhat where report z is the level itself, of levels `apart`."""
    x = LOWEST + z * apart
    return x - min(max(rhat, INSIDE_LOW), INSIDE_HIGH)


@njit(cache=True, nogil=True)
def channel_of(facts, c):
    """Return (alphabet, whether a report is the level itself, distance of levels) of a channel; the
    alphabet of an unknown one is empty."""
    alphabet = facts[c, ALPHABET] if c < facts.shape[0] else 0
    exact = alphabet > 0 and facts[c, EXACT] != 0
    return alphabet, exact, distance(facts[c, LEVELS]) if exact else 0.0


@njit(cache=True, nogil=True, inline="always")
def within(x, low, high):
    """Return x held within low .. high."""
    return min(max(x, low), high)


@njit(cache=True, nogil=True, inline="always")
def predict(mean, scalars_u, su, scalars_i, si, p, q, k, D):
    """Return (rhat, T, |p|^2, |q|^2, vu, vi) of a user in slot su and an item in slot si."""
    pp = dot(p, p)
    qq = dot(q, q)
    vu = np.float64(scalars_u[su, SHARE]) * k.user_variance
    vi = np.float64(scalars_i[si, SHARE]) * k.item_variance
    T = (
        np.float64(scalars_u[su, BIAS_SHARE]) * k.user_bias_variance
        + np.float64(scalars_i[si, BIAS_SHARE]) * k.item_bias_variance
        + (vu * qq + vi * pp + k.coupling * D * vu * vi)
    )
    bias = np.float64(scalars_u[su, BIAS]) + np.float64(scalars_i[si, BIAS])
    return mean + (bias + dot(p, q)), T, pp, qq, vu, vi


@njit(cache=True, nogil=True, inline="always")
def vector_steps(e, rho, per_S, scalars_u, su, scalars_i, si, p, q, vu, vi, k):
    """Return the steps of p and of q."""
    along = per_S * e
    back = per_S * rho
    gu = vector_gain(vu, scalars_u[su, BIAS_SHARE], k)
    gi = vector_gain(vi, scalars_i[si, BIAS_SHARE], k)
    return (
        move(p, q, gu * along, gu * back * k.user_shrink),
        move(q, p, gi * along, gi * back * k.item_shrink),
    )


@njit(cache=True, nogil=True, inline="always")
def step_both(scalars_u, su, scalars_i, si, e, rho, per_S, pp, qq, rated, k):
    """Move the scalars of the user and then of the item; rated: the rating's share of an event."""
    step_scalars(
        scalars_u, su, e, rho, per_S, qq, k, k.user_bias_variance, k.user_variance,
        k.user_drift * rated,
    )  # fmt: skip
    step_scalars(
        scalars_i, si, e, rho, per_S, pp, k, k.item_bias_variance, k.item_variance,
        k.item_drift * rated,
    )  # fmt: skip


@njit(cache=True, nogil=True, inline="always")
def step_scalars(scalars, s, e, rho, per_S, other, k, bias_variance, variance, drift):
    """Move the scalars of slot s in place; other: squared norm of the vector across."""
    b = np.float64(scalars[s, BIAS])
    gain = np.float64(scalars[s, BIAS_SHARE]) * bias_variance * per_S
    b += gain * (e - k.bias_shrink * rho * b)
    narrow = k.coupling * np.float64(scalars[s, SHARE]) * variance * other * per_S
    scalars[s, BIAS] = np.float32(within(b, -BIAS_LIMIT, BIAS_LIMIT))
    share = np.float64(scalars[s, BIAS_SHARE]) * (1.0 - gain * rho) + drift
    scalars[s, BIAS_SHARE] = np.float32(within(share, LEAST_SHARE, 1.0))
    share = np.float64(scalars[s, SHARE]) * (1.0 - narrow * rho)
    scalars[s, SHARE] = np.float32(within(share, LEAST_SHARE, 1.0))


@njit(cache=True, nogil=True, inline="always")
def step_mean(mean, variance, e, rho, S):
    """Return the overall mean and its variance after a step."""
    gain = variance / (S + variance)
    return within(mean + gain * e, LOWEST, HIGHEST), max(variance * (1.0 - gain * rho), 0.0)
