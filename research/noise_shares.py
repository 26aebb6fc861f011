"""Noise that many contributors make together, so that no single one of them has to be trusted.

Every contributor adds a share of noise to its own vector before the secure sum; `least` honest ones
carry the guarantee. More of them only add noise; with fewer a round must be aborted.

`GaussianShares`   each share has variance V / least, at least 4. By step 2 of
                   `exact/gaussian_calibration.py` the sum of n such shares is, at every integer,
                   within a factor r = ((1 + h) / (1 - h))^(n-1), h = 2.1 exp(-pi^2 V / n), of the
                   discrete Gaussian of variance V: both worlds lose r a coordinate (Kairouz, Liu
                   and Steinke 2021)
`PolyaShares`      the difference of two Polya (negative binomial) variables of order 1 / least; the
                   sum of `least` of them is exactly discrete Laplace, P(x) ~ e^(-scale |x|)
                   (Goryczka and Xiong 2015)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.exact.gaussian_calibration import exponential
from stream_app.privacy.gaussian.certificate import CampaignCertificate, NoisySum
from stream_app.privacy.gaussian.sampling import LEAST_VARIANCE, discrete_gaussian
from stream_app.privacy.randomness import RandomSource

_DIGITS = Context(prec=60)
_TOTAL = 2**64


@dataclass(frozen=True)
class GaussianShares:
    """`rounds` sums of vectors of `size` integers, of L2 norm at most `bound`, with shared noise.

    variance: V, of the noise of `least` contributors together.
    """

    bound: int
    variance: Fraction
    size: int
    least: int
    rounds: int = 1

    def __post_init__(self) -> None:
        if self.least < 1 or self.rounds < 1:
            raise ValueError(f"least {self.least}, rounds {self.rounds}: 1 or more of each")
        if self.each < LEAST_VARIANCE:
            raise ValueError(
                f"variance {float(self.variance):.6g} from {self.least} contributors: each share "
                f"needs {LEAST_VARIANCE} squared units or more; take a finer grid"
            )

    @property
    def each(self) -> Fraction:
        """Return the variance of a share."""
        return self.variance / self.least

    def draw(self, source: RandomSource) -> NDArray[np.int64]:
        """Return a contributor's share (size,), in units."""
        return discrete_gaussian(self.each, self.size, source)

    def epsilon(self, delta: Fraction, bound: int | None = None) -> float:
        """Return a bound of epsilon at delta; `bound`: of a contribution that is clipped closer."""
        each = NoisySum(self.bound if bound is None else bound, self.variance, self.size)
        h = Fraction(21, 10) * exponential(-Fraction(98, 10) * min(self.each, Fraction(20)))[1]
        lost = self.rounds * self.size * (self.least - 1) * 2 * h / (1 - h)
        found = CampaignCertificate((each,) * self.rounds).epsilon(delta * exponential(-lost)[0])
        return float(found + 2 * lost) * (1 + 2**-50)


@dataclass(frozen=True)
class PolyaShares:
    """Shares of discrete Laplace noise: a change of d units in L1 costs d * `scale` of epsilon."""

    scale: Fraction
    least: int

    def __post_init__(self) -> None:
        if not Fraction(1, 10_000) <= self.scale <= 10:
            raise ValueError(f"scale {self.scale} a unit: must be 1/10000 to 10")
        if self.least < 1:
            raise ValueError(f"least {self.least} honest contributors: 1 or more")

    @cached_property
    def probabilities(self) -> list[Decimal]:
        """Return P(k) of a Polya variable of order 1 / least, k = 0 .. until 2^-72 is left.

        P(0) = (1 - a)^(1/least), P(k + 1) = P(k) a (k + 1/least) / (k + 1), a = e^-scale.
        """
        order = _DIGITS.divide(Decimal(1), Decimal(self.least))
        a = _DIGITS.exp(-_DIGITS.divide(*map(Decimal, self.scale.as_integer_ratio())))
        found = [_DIGITS.power(1 - a, order)]
        left = 1 - found[0]
        while left > Decimal(2) ** -72:
            k = len(found) - 1
            found.append(_DIGITS.multiply(found[-1] * a, (k + order) / (k + 1)))
            left -= found[-1]
        return found

    @cached_property
    def _thresholds(self) -> NDArray[np.uint64]:
        total, found = Decimal(0), []
        for probability in self.probabilities[:-1]:
            total += probability
            found.append(min(int(total * _TOTAL), _TOTAL - 1))
        return np.array(found, np.uint64)

    def draw(self, size: int, source: RandomSource) -> NDArray[np.int64]:
        """Return a contributor's share (size,), in units."""
        places = np.searchsorted(self._thresholds, source.words(2 * size), side="right")
        return np.asarray(places[:size].astype(np.int64) - places[size:])

    def slack(self, draws: int, epsilon: float) -> float:
        """Return what the rounding of the table to 2^-64 adds to delta, for all `draws` shares."""
        distance = 2 * draws * (len(self.probabilities) + 1) / _TOTAL
        return min(1.0, (1 + math.exp(epsilon)) * distance)
