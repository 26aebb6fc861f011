"""Running sums of integer vectors, released round by round, and what all of them cost a person.

    w_t = sum_{s <= t} H_ts x_s + z_t      x_s the sum of round s, z_t discrete Gaussians of
                                           variance V in every coordinate, H a `Factor`

A running sum is a campaign of T noisy sums: row t is a sum of integer vectors, that of a person
being sum_{s in S} H_ts v_s, of norm at most `bound` (H 1_S)_t by the triangle inequality, whatever
the vectors v_s depend on: rows that were released before, too. So the certificate of noisy sums
holds for the rows as they are, with exact integers:

    mu^2 = sum_t (bound (H 1_S)_t)^2 / (V - r^2)

and it cannot be smaller, because a person who sends one vector of norm `bound` each time moves
every row by that much. When a person contributes is public, and must not depend on what the others'
vectors are; S may be any set of rounds that `Factor.worst` allows. Neighbours as in `certificate`:
a person's vectors in all rounds and stages, or zeros in their place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from research.continual.running_factor import Factor
from stream_app.privacy.gaussian.certificate import (
    SMOOTHING,
    CampaignCertificate,
    NoisySum,
)
from stream_app.privacy.gaussian.sampling import (
    LARGEST_VARIANCE,
    LEAST_VARIANCE,
    discrete_gaussian,
)
from stream_app.privacy.randomness import RandomSource


def running_certificate(
    sums: Sequence[NoisySum], factor: Factor, *, times: int = 1, apart: int = 1
) -> CampaignCertificate:
    """Return the cost of running sums of these bounds and variances V, all by the same factor, to a
    person who contributes `times` times to each, `apart` rounds apart or more."""
    moved = factor.moved(factor.worst(times, apart))
    return CampaignCertificate(
        tuple(
            NoisySum(each.bound * reach, each.variance, each.size)
            for each in sums
            for reach in moved
            if reach
        )
    )


def running_sum(
    square: Fraction, size: int, factor: Factor, *, most: int, times: int = 1, apart: int = 1
) -> NoisySum:
    """Return the bound of a contribution, `most` or less where the noise would be wider than the
    sampler's tables, and the least whole V with which all rows cost at most mu^2 = `square`.

    ValueError where even a bound of 1 needs more noise than can be drawn.
    """
    if square <= 0:
        raise ValueError(f"share {square} of mu^2: must be above 0")
    moved = factor.square(factor.worst(times, apart))
    bound = min(most, math.isqrt(int((LARGEST_VARIANCE - SMOOTHING - 1) * square / moved)))
    variance = Fraction(math.ceil(bound**2 * moved / square + SMOOTHING))
    return NoisySum(bound, max(variance, LEAST_VARIANCE), size)


class RunningSum:
    """One running sum of `size` coordinates, with the noise of each party in every row."""

    def __init__(self, factor: Factor, noise: NoisySum, parties: int) -> None:
        self._factor, self._noise, self._parties = factor, noise, parties
        self._sums: list[NDArray[np.int64]] = []
        self._released: list[NDArray[np.int64]] = []

    @property
    def rounds(self) -> int:
        """How many rounds were added."""
        return len(self._released)

    def add(self, total: NDArray[np.int64], source: RandomSource) -> NDArray[np.int64]:
        """Add the sum (size,) of the next round, and return the row that is released.

        ValueError after the last round of the factor, or for another length.
        """
        if self.rounds == self._factor.rounds:
            raise ValueError(f"round {self.rounds + 1} of {self._factor.rounds}: there is none")
        if total.shape != (self._noise.size,):
            raise ValueError(f"a sum of {len(total)} coordinates: must have {self._noise.size}")
        self._sums.append(total.astype(np.int64))
        released = np.zeros(self._noise.size, np.int64)
        for entry, each in zip(self._factor.rows[self.rounds], self._sums, strict=True):
            released += entry * each
        for _ in range(self._parties):
            released += discrete_gaussian(self._noise.variance, self._noise.size, source)
        self._released.append(released)
        return released

    def estimate(self) -> NDArray[np.float64]:
        """Return the running sum as a reader of the released rows has it (size,)."""
        found = np.zeros(self._noise.size)
        weights = self._factor.weights(self.rounds - 1) if self._released else ()
        for weight, row in zip(weights, self._released, strict=True):
            found += weight * row
        return found

    @property
    def variance(self) -> float:
        """The variance of a coordinate of the estimate, 0 before the first round."""
        if not self._released:
            return 0.0
        return self._parties * float(self._noise.variance) * self._factor.gain(self.rounds - 1)
