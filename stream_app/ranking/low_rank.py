"""Rates and few factors of what devices have, also where every report is noised.

    v_i = q_i (1 - q_i) / (p - q)^2, q_i the rate of positive reports        variance of one report
    R   = covariance_ij / sqrt(v_i v_j), R_ii = 1                            correlations
    keep eigenvalues l > 1.01 (1 + sqrt gamma)^2, gamma = n / devices        (Marchenko-Pastur edge)
    b = l + 1 - gamma;  s = (b + sqrt(b^2 - 4 l)) / 2 - 1                    spike without noise
    c2 = (1 - gamma / s^2) / (1 + gamma / s);  W = sqrt(v) Q sqrt(s c2)      (Paul 2007, eq. 2.10)

So x ~ rates + W z + noise, and the number of factors is found from the data. Where presence is
public the report is x itself and v its variance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.pair_counts import PairCounts, report_variance

EDGE = 1.01
MOST_FACTORS = 64
DENSE_UP_TO = 600  # items; below it all eigenvalues are cheaper than a few
PASSES = 12
LEAST_VARIANCE = 1e-3
_PRIORS = 0.001, 0.999


class LowRank(NamedTuple):
    """x = rates + factors z + noise: rates (n,), factors (n, r), and the variance (n,) of x around
    its rate, which holds what the factors leave; r may be 0."""

    rates: NDArray[np.float32]
    factors: NDArray[np.float32]

    @property
    def noise(self) -> NDArray[np.float64]:
        """The variance of x around its rate (n,)."""
        left = np.maximum(self.rates * (1 - self.rates), LEAST_VARIANCE)
        return np.asarray(left, np.float64)

    def variance(self, channel: tuple[float, float] | None) -> NDArray[np.float64]:
        """Return D (n,): the variance of x around the model, and of reports through a `channel`
        (P(positive | positive), P(positive | not positive)), debiased, that of their noise."""
        return self.noise if channel is None else self.noise + report_variance(channel)

    def without_factors(self) -> LowRank:
        """Return the rates alone."""
        return LowRank(self.rates, np.zeros((len(self.rates), 0), np.float32))


def posterior_likes(
    model: LowRank,
    taste: NDArray[np.float32],
    positive: NDArray[np.bool_],
    channel: tuple[float, float],
) -> NDArray[np.float32]:
    """Return how probable it is that a user with this taste likes each item (n,), given the noised
    bits `positive` (n,) of all items through `channel`, as in `variance`.

    Links take it in place of the bits: on ML-1M likes at epsilon 1 / 2 / 4 nDCG@10 is .091 / .101 /
    .108, from debiased bits .063 / .093 / .108 (300 items, on a split inside the training part).
    """
    p, q = channel
    prior = np.clip(model.rates + model.factors @ taste, *_PRIORS)
    liked = np.where(positive, p, 1 - p) * prior
    other = np.where(positive, q, 1 - q) * (1 - prior)
    likes: NDArray[np.float32] = (liked / (liked + other)).astype(np.float32)
    return likes


def rates(counts: PairCounts) -> NDArray[np.float32]:
    """Return the share of devices that have each item (n,), debiased and, where noised, shrunk to
    the mean rate by what the noise leaves of their spread."""
    exposures = np.maximum(counts.exposures, 1).astype(np.float64)
    seen = counts.sums / exposures
    if counts.channel is None:
        return np.clip(seen, 0, 1).astype(np.float32)
    positive, false = counts.channel
    span = positive - false
    raw = (seen - false) / span
    error = report_variance(counts.channel) / exposures
    spread = max(float(raw.var()) - float(error.mean()), 0.0) if len(raw) else 0.0
    mean = float(raw.mean()) if len(raw) else 0.0
    shrunk = mean + (raw - mean) * (spread / (spread + error))
    return np.clip(shrunk, 0, 1).astype(np.float32)


def estimate(
    counts: PairCounts, most: int = MOST_FACTORS, start: NDArray[np.float32] | None = None
) -> LowRank:
    """Return rates and factors; `start` (n, any) are earlier factors, from which large tables are
    solved in fewer passes."""
    rate = rates(counts)
    size, devices = len(rate), float(counts.exposures.max(initial=0))
    if size < 2 or devices < 2:
        return LowRank(rate, np.zeros((size, 0), np.float32))
    R, deviation = correlations(counts, rate)
    gamma = size / devices
    edge = EDGE * (1 + np.sqrt(gamma)) ** 2
    values, vectors = leading(R, min(most, size), start)
    strengths = np.array([strength(value, gamma) if value > edge else 0.0 for value in values])
    kept = strengths > 0
    scaled = vectors[:, kept] * np.sqrt(strengths[kept])[None, :]
    return LowRank(rate, (deviation[:, None] * scaled).astype(np.float32))


def strength(value: float, gamma: float) -> float:
    """Return what an eigenvalue above the edge says of its factor: the spike, shrunk by the squared
    cosine between the estimated and the true direction."""
    b = value + 1 - gamma
    spike = (b + np.sqrt(max(b * b - 4 * value, 0.0))) / 2 - 1
    if spike <= 0:
        return 0.0
    cosine = (1 - gamma / spike**2) / (1 + gamma / spike)
    return float(spike * max(cosine, 0.0))


def signal(counts: PairCounts, rate: NDArray[np.float32]) -> float:
    """Return the share of the variance of the correlations that is not noise, 0 .. 1: independent
    reports of N devices have correlations of variance 1 / N."""
    size, devices = len(rate), float(counts.exposures.max(initial=0))
    if size < 2 or devices < 2:
        return 0.0
    R, _ = correlations(counts, rate)
    np.fill_diagonal(R, 0)
    variance = float((R.astype(np.float64) ** 2).sum()) / (size * (size - 1))
    return max(1 - 1 / (devices * variance), 0.0) if variance > 0 else 0.0


def correlations(
    counts: PairCounts, rate: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the correlations of the reports (n, n) with a diagonal of ones, and their standard
    deviations (n,) in units of x. An item that never varies correlates with nothing."""
    exposures = np.maximum(counts.exposures, 1).astype(np.float32)
    seen = counts.sums / exposures
    together = np.minimum(exposures[:, None], exposures[None, :])
    R = counts.pairs / together
    R -= seen[:, None] * seen[None, :]
    if counts.channel is None:
        span, variance = 1.0, counts.squares / exposures - seen**2
    else:
        span = counts.channel[0] - counts.channel[1]
        positive = counts.channel[1] + span * rate
        variance = positive * (1 - positive)
    varies = variance > LEAST_VARIANCE / exposures
    inverse = np.where(varies, 1 / np.sqrt(np.where(varies, variance, 1)), 0).astype(np.float32)
    R *= inverse[:, None] * inverse[None, :]
    np.fill_diagonal(R, 1)
    deviation = np.where(varies, np.sqrt(np.maximum(variance, 0)) / span, 0)
    return R.astype(np.float32), deviation.astype(np.float32)


def leading(
    R: NDArray[np.float32], most: int, start: NDArray[np.float32] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Return the `most` largest eigenvalues and their vectors (n, most), largest first.

    Large tables by subspace iteration (Halko, Martinsson, Tropp 2011, algorithm 4.4) from `start`
    or from columns that any machine computes alike.
    """
    size = len(R)
    if size <= max(DENSE_UP_TO, 3 * most):
        values, vectors = np.linalg.eigh(R)
        return values[::-1][:most].astype(np.float64), vectors[:, ::-1][:, :most]
    width = min(size, most + 16)
    block = np.random.default_rng(0).standard_normal((size, width)).astype(np.float32)
    if start is not None:
        known = min(start.shape[1], width)
        block[:, :known] = start[:, :known]
    for _ in range(PASSES):
        block = np.linalg.qr(R @ block)[0]
    values, turn = np.linalg.eigh(block.T @ (R @ block))
    return values[::-1][:most].astype(np.float64), (block @ turn[:, ::-1])[:, :most]
