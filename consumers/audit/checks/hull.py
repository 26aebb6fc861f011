"""How far the counts of reports are from everything that a channel can produce.

Whatever the ratings are, the mean law of n reports is a mixture of the channel's columns:

    D = min over mixtures pi of  n KL(counts / n || L pi)            L: (k, v), columns sum to 1

An honest deployment exceeds x with probability at most `tails.divergence_tail(x, k)`, because the
true mixture is one of those over which the minimum is taken. The minimum is found by expectation
maximisation, pi_v <- pi_v g_v with g_v = sum_z (counts_z / n) L[z, v] / (L pi)_z. By concavity the
minimum is at most n ln(max g) below the value at pi, so that much is subtracted: the result is a
lower bound of D at every step, and an early end costs power, never a false alarm.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

STEPS = 4000
_CLOSE = 0.05  # nats of n KL that are worth no further step


def hull_divergence(counts: NDArray[np.int64], channel: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a lower bound of D for each group of counts (g, k); inf where a report is impossible.

    `channel` is (k, v). A group without reports has D = 0.
    """
    totals = counts.sum(axis=1).astype(np.float64)
    found = np.zeros(len(counts))
    impossible = (counts[:, channel.max(axis=1) <= 0] > 0).any(axis=1)
    found[impossible] = np.inf
    left = np.flatnonzero((totals > 0) & ~impossible)
    left = left[~_inside(counts[left] / totals[left, None], channel)]
    shares = counts[left] / totals[left, None]
    mixture = np.full((len(left), channel.shape[1]), 1 / channel.shape[1])
    for step in range(STEPS):
        if not len(left):
            break
        fitted = mixture @ channel.T
        ratio = np.divide(shares, fitted, out=np.zeros_like(shares), where=shares > 0)
        gain = ratio @ channel
        slack = totals[left] * np.log(np.maximum(gain.max(axis=1), 1.0))
        done = slack <= _CLOSE if step + 1 < STEPS else np.ones(len(left), np.bool_)
        if step % 8 == 0 or done.all():
            logs = np.log(ratio, out=np.zeros_like(ratio), where=ratio > 0)
            value = totals[left] * (shares * logs).sum(axis=1) - slack
            found[left[done]] = np.maximum(value[done], 0.0)
            kept = ~done
            left, shares, mixture, gain = left[kept], shares[kept], mixture[kept], gain[kept]
        mixture = mixture * gain
    return found


def point_divergence(counts: NDArray[np.int64], law: NDArray[np.float64]) -> float:
    """Return n KL(counts / n || law) of one group (k,) against one law (k,)."""
    total = counts.sum()
    if not total:
        return 0.0
    shares = counts / total
    if (shares[law <= 0] > 0).any():
        return float("inf")
    some = shares > 0
    return float(total * (shares[some] * np.log(shares[some] / law[some])).sum())


def _inside(shares: NDArray[np.float64], channel: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which laws (g, k) are mixtures by the inverse of the channel, where it has one."""
    columns = channel.shape[1]
    if not len(shares) or np.linalg.matrix_rank(channel) < columns:
        return np.zeros(len(shares), np.bool_)
    weights, *_ = np.linalg.lstsq(channel, shares.T, rcond=None)
    exact = np.abs(channel @ weights - shares.T).max(axis=0) < 1e-12
    return np.asarray(exact & (weights.min(axis=0) >= 0), np.bool_)
