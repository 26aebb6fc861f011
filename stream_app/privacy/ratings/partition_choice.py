"""The choice of a mask for a rating: the partition of the levels that explains most variance.

    pi_v ~ exp(-(x_v - c)^2 / 2V),  V = .85,  c such that the mean is t     prior of level v
    Q    = sum_z P(z) (E[r | z] - t)^2 = Var(E[r | z])                   explained variance
    P(z | v) = (p - q) [g(v) = z] + q      p = e^eps / (e^eps + Z - 1),  q = 1 / (e^eps + Z - 1)

over the Z groups of a mask (`stream_app.privacy.ratings.partition_response`). The selector takes
the mask with the largest Q, and the smallest mask among equals. At small epsilon this is one bit,
"above this level?", cut near the expectation; at large epsilon it has many groups. A linear program
over all staircase channels finds none better than such a partition.

The expectation t is the item's public mean on the scale 1 .. 5, in bins of a quarter of a star,
plus the user bias b: the user's mean deviation from the items' means, estimated from the user's
*released* reports. Its posterior is computed on a grid, with a normal prior:

    ln P(b | reports) = const - b^2 / 2 S^2 + sum_n ln P(z_n | mean_n + b, mask_n),    S = .5

No function here has an argument for unreleased private data, so a mask reveals nothing beyond
public data and earlier reports.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LOWEST, HIGHEST = 1.0, 5.0
MOST_LEVELS = 11
VARIANCE = 0.85  # of a rating around its expectation
PER_STAR = 4  # bins
USER_BIASES = np.arange(-20, 21) / 10  # deviations of a user from the items' means, in stars
USER_BIAS_DEVIATION = 0.5
_FINE = 20  # bins per star for the likelihood of reports
_INSIDE = 0.15  # least distance of an expectation from the ends: no prior has its mean there
_STEPS = 50
_DIGITS = 12  # of Q are compared; the last bits differ between machines


@dataclass(frozen=True)
class PartitionSelector:
    """The best mask for every expectation, for one number of levels and one epsilon.

    Raises ValueError outside 2 <= levels <= 11 and for an epsilon that is not above 0.

    >>> PartitionSelector(5, Fraction(1)).masks(np.array([2.0, 3.6, 4.4])).tolist()
    [2, 4, 8]
    """

    levels: int
    epsilon: Fraction
    table: NDArray[np.uint16] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if type(self.levels) is not int or not 2 <= self.levels <= MOST_LEVELS:
            raise ValueError(
                f"levels {self.levels!r}: a partition divides 2 to {MOST_LEVELS} levels"
            )
        if not self.epsilon > 0:
            raise ValueError(f"epsilon {self.epsilon}: must be above 0")
        best = np.argmax(np.round(self._explained(), _DIGITS), axis=0) + 1
        table = best.astype(np.uint16)
        table.flags.writeable = False
        object.__setattr__(self, "table", table)

    def masks(self, means: Floats) -> NDArray[np.uint16]:
        """Return the mask for each expected rating (n,) on 1 .. 5; ValueError for NaN.

        An expectation outside the scale counts as the nearest end.
        """
        if np.isnan(means).any():
            raise ValueError("means: one is not a number; give the middle of the scale, 3")
        inside = np.clip(means, LOWEST, HIGHEST) - LOWEST
        return self.table[np.rint(inside * PER_STAR).astype(np.int64)]

    def evidence(
        self, means: Floats, masks: NDArray[np.uint16], reports: NDArray[np.uint8]
    ) -> Floats:
        """Return ln P(released report | user bias), (n, biases); the rows of a user are summed.

        means: the items' public means (n,); reports: released under the masks (n,).
        """
        at = np.clip(means[:, None] + USER_BIASES, LOWEST, HIGHEST) - LOWEST
        bins = np.rint(at * _FINE).astype(np.int64)
        groups = groups_of(self.levels)[masks]
        among = groups == reports[:, None]
        begins, many = among.argmax(1), groups[:, -1] + 1
        ends = begins + among.sum(1)
        mass = self._shares[bins, ends[:, None]] - self._shares[bins, begins[:, None]]
        others = _others(self.epsilon, many)
        return np.asarray(np.log(((1 - many * others) * np.maximum(mass, 0).T + others).T))

    @cached_property
    def _shares(self) -> Floats:
        """Return the probability of the levels below each, for each finely binned expectation."""
        bins = np.arange((HIGHEST - LOWEST) * _FINE + 1) / _FINE + LOWEST
        return np.pad(priors(bins, self.levels).cumsum(1), ((0, 0), (1, 0)))

    def _explained(self) -> Floats:
        """Return Q of each mask in each bin, (masks, bins)."""
        groups = groups_of(self.levels)[1:]
        many = groups[:, -1] + 1  # Z
        others = _others(self.epsilon, many)
        ahead = 1 - many * others  # p - q
        bins = np.arange((HIGHEST - LOWEST) * PER_STAR + 1) / PER_STAR + LOWEST
        stars, expected = stars_of(self.levels), priors(bins, self.levels)
        centred = expected * (stars - (expected @ stars)[:, None])
        explained = np.zeros((len(groups), len(bins)))
        for group in range(self.levels):
            members = (groups == group).astype(np.float64)
            exists = (group < many)[:, None]
            mass, moment = members @ expected.T, members @ centred.T
            probability = ahead[:, None] * mass + others[:, None]
            explained += np.where(exists, (ahead[:, None] * moment) ** 2 / probability, 0.0)
        return explained


def user_biases(evidence: Floats) -> Floats:
    """Return the posterior mean bias of each user from summed evidence (users, biases)."""
    logs = evidence - USER_BIASES**2 / (2 * USER_BIAS_DEVIATION**2)
    odds = np.exp(logs - logs.max(-1, keepdims=True))
    return np.asarray((odds * USER_BIASES).sum(-1) / odds.sum(-1))


def groups_of(levels: int) -> NDArray[np.int64]:
    """Return the group of each level under masks 0, 1, .., shape (2^(levels - 1), levels)."""
    bits = np.arange(2 ** (levels - 1))[:, None] >> np.arange(levels - 1) & 1
    groups = np.zeros((len(bits), levels), np.int64)
    groups[:, 1:] = bits.cumsum(axis=1)
    return groups


def _others(epsilon: Fraction, many: NDArray[np.int64]) -> Floats:
    """Return q, the probability of each false group among Z groups."""
    return np.asarray(1 / (math.exp(min(float(epsilon), 700.0)) + many - 1))


def stars_of(levels: int) -> Floats:
    """Return the rating of each of `levels` levels on the scale 1 .. 5."""
    return LOWEST + (HIGHEST - LOWEST) * np.arange(levels) / (levels - 1)


def priors(means: Floats, levels: int, variance: float | Floats = VARIANCE) -> Floats:
    """Return pi_v for each of (n,) means, (n, levels): a discretised normal with this mean.

    The means are clipped to the inside of the scale; `variance` is one number or (n,).
    """
    wanted = np.clip(means, LOWEST + _INSIDE, HIGHEST - _INSIDE)
    stars, spread = stars_of(levels), np.broadcast_to(variance, wanted.shape)
    low, high = np.full(wanted.shape, -40.0), np.full(wanted.shape, 46.0)
    for _ in range(_STEPS):  # bisection: the mean rises with c
        c = (low + high) / 2
        pi = _normal(c, spread, stars)
        below = pi @ stars < wanted
        low, high = np.where(below, c, low), np.where(below, high, c)
    return _normal((low + high) / 2, spread, stars)


def _normal(c: Floats, spread: Floats, stars: Floats) -> Floats:
    logs = -((stars - c[:, None]) ** 2) / (2 * spread[:, None])
    odds = np.exp(logs - logs.max(1, keepdims=True))
    return np.asarray(odds / odds.sum(1, keepdims=True))
