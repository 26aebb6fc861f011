"""The loss of noisy sums over random samples: each event is in a step with probability q.

One step of a trainer sums clipped vectors of the events that it sampled and adds Gaussian noise.
With x the projection on the vector of one event, in units of the noise, the two worlds are

    with       (1 - q) N(0, 1) + q N(mu, 1)
    without    N(0, 1)
    L(x)       ln(1 - q + q e^(mu x - mu^2/2)),   increasing in x

and for "added" and for "removed" this pair dominates all others (Zhu, Dong and Wang 2022, Prop. 30
and Thm 11; Mironov, Talwar and Zhang 2019). Steps draw their samples independently, so losses add.
Both directions are composed, and the larger curve counts. q = 1 is the Gaussian of `gaussian.py`.

Numbers: the line is cut into pieces of width w. A piece counts with its largest loss and with a
bound of its probability,

    w phi(m) (1 + w^2 (|m| + w)^2 / 12 + w^2 / 12)     m its middle, as |phi''| <= (x^2 + 1) phi

so delta is never below the truth. The noise of a sum is discrete; `sampled_epsilon` adds what that
costs: each law of a step is within e^(-a) and e^b, a coordinate, of a post-processing of the
continuous one (`stream_app.privacy.gaussian.certificate`, steps 1 to 3), mixtures of them as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.accounting.loss_distribution import LossDistribution
from stream_app.privacy.accounting.loss_grid import GridLoss, split

_REACH = 13.0  # standard deviations; beyond them is less than 2^-120
_BEYOND = 2.0**-120
_PIECES = 2**18
_COARSE = 2**11  # pieces of a guess
_TYPICAL = 6.0  # the deviation whose loss sets the scale of the grid
_RATIO = math.sqrt(2) - 1  # of two losses that no coarse grid holds
_ROUNDING = 1e-12  # above the rounding errors of a density and of a loss


@dataclass(frozen=True)
class SampledGaussianLoss:
    """One step. rate: q, above 0 and at most 1; square: mu^2 of an event that is in the sample.

    removed: the first world has the event; else it is the other direction.
    """

    rate: Fraction
    square: Fraction
    removed: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate {self.rate} of a sample: above 0, at most 1")
        if not 0 < self.square <= 100:
            raise ValueError(f"square {float(self.square):.3g}: mu^2 must be above 0, at most 100")

    def losses(self, count: int) -> tuple[float, ...]:  # noqa: ARG002 (the protocol's signature)
        """Return two losses of the usual size, which no coarse grid has in common."""
        mu = math.sqrt(self.square)
        usual = float(self._loss(np.array([mu + _TYPICAL]))[0])
        return (usual, usual * _RATIO)

    def largest(self, count: int) -> float:
        """Return the bound of "added", count * -ln(1 - q); inf for "removed"."""
        if self.removed or self.rate == 1:
            return math.inf
        return -count * math.log1p(-float(self.rate)) * (1 + 2**-48)

    def log_moment(self, order: float, count: int) -> float:
        """Return a guess of ln E[e^(order L)]."""
        losses, masses = self._pieces(_COARSE)
        exponents = np.log(np.maximum(masses, 1e-300)) + order * losses
        top = float(exponents.max())
        return count * (top + math.log(float(np.exp(exponents - top).sum())))

    def grid(self, spacing: Fraction, count: int) -> tuple[GridLoss, int]:
        """Return the loss of a step on the grid, to be added `count` times."""
        return split(*self._pieces(_PIECES), spacing, _BEYOND), count

    def renyi(self, order: Fraction) -> Fraction:
        """Return the divergence without sampling, a mu^2 / 2, which a mixture does not exceed."""
        return order * self.square / 2

    def _loss(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        mu, q = math.sqrt(self.square), float(self.rate)
        tilted = mu * x - mu * mu / 2
        if q == 1:
            return tilted
        return np.asarray(np.logaddexp(math.log1p(-q), math.log(q) + tilted))

    def _pieces(self, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return upper bounds of the losses and of the probabilities of `count` pieces."""
        mu, q = math.sqrt(self.square), float(self.rate)
        ends = np.linspace(-_REACH, _REACH + mu, count + 1)
        width, middles = float(ends[1] - ends[0]), (ends[1:] + ends[:-1]) / 2
        masses = _mass(middles, width)
        if self.removed:
            masses = (1 - q) * masses + q * _mass(middles - mu, width)
            losses = self._loss(ends[1:])
        else:
            losses = -self._loss(ends[:-1])
        return losses + _ROUNDING * (1 + np.abs(losses)), masses


def _mass(middles: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    """Return upper bounds of the standard normal probability of pieces."""
    density = np.exp(-(middles**2) / 2) / math.sqrt(2 * math.pi)
    curved = 1 + width**2 / 12 * ((np.abs(middles) + width) ** 2 + 1)
    return np.asarray(width * density * curved * (1 + _ROUNDING))


def sampled_delta(rate: Fraction, square: Fraction, steps: int, epsilon: float) -> float:
    """Return a bound of delta at epsilon for `steps` steps, of both directions."""
    return max(each.delta(epsilon) for each in _both(rate, square, steps))


@lru_cache(maxsize=64)
def sampled_epsilon(rate: Fraction, square: Fraction, steps: int, delta: float) -> float:
    """Return a bound of epsilon at delta for `steps` steps of continuous noise.

    >>> round(sampled_epsilon(Fraction(4096, 800_000), Fraction(1), 1953, 1e-6), 2)
    1.43
    """
    return max(each.epsilon(delta) for each in _both(rate, square, steps))


def _both(rate: Fraction, square: Fraction, steps: int) -> list[LossDistribution]:
    losses = (SampledGaussianLoss(rate, square, removed) for removed in (True, False))
    return [LossDistribution.single(loss).self_composed(steps) for loss in losses]
