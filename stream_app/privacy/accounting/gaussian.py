"""The loss of profiles with Gaussian noise: exact curves, which compose by adding mu^2.

    G(mu)             N(0, 1) against N(mu, 1)
    delta(epsilon)    Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)
    G(a) with G(b)    G(sqrt(a^2 + b^2))

(Balle and Wang 2018, Thm 8; Dong, Roth and Su 2022, Cor. 3.3.) n profiles of L coordinates, with
noise of variance parameter V and all coordinates moved by c, have mu^2 = n L c^2 / V.

The noise is discrete, and drawn from an integer table. `ProjectionLoss` is that table's loss:

1. A coordinate moves by at most c where c items change. Discrete Gaussian weights are log-concave,
   so the likelihood ratio of a shift is monotone and the best set is a half line, whose probability
   under the shifted law grows with the shift: a shift of c dominates every smaller one.
2. The loss of all n L coordinates together is c (n L c - 2 T) / 2V with T the sum of the noise, and
   P(T = t) <= R exp(-t^2 / 2nLV) / sqrt(2 pi n L V), R = ((1 + h) / (1 - h))^(nL - 1), by step 2
   of `gaussian_calibration.py`.
3. A table's counts are within 1 +- eta of the discrete Gaussian up to its reach B (verified when it
   is built): the loss grows by nL 2 eta / (1 - eta), a mass by (1 + eta)^(nL), and the event that a
   coordinate comes within c of the edge, at most nL P(|noise| > B - c), counts as an infinite loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from stream_app.privacy.accounting.loss_grid import UNIT, GridLoss, round_up, split
from stream_app.privacy.exact.discrete_gaussian import TOTAL, NoiseTable, uneven
from stream_app.privacy.exact.gaussian_calibration import analytic_delta, exponential, least_steps

_REACH = 13  # standard deviations of T; beyond them is less than 2^-120
_BLOCKS = 2**20  # of values of T
_STEPS = 2**30
Bounds = tuple[Fraction, Fraction]


def gaussian_delta(epsilon: Fraction, square: Fraction) -> Bounds:
    """Return rational bounds of the delta of G(mu) at epsilon, given `square` = mu^2."""
    return analytic_delta(epsilon, 1 / square)


def gaussian_epsilon(delta: Fraction, square: Fraction) -> Fraction:
    """Return the least multiple of 2^-30 that bounds epsilon of G(mu) at delta > 0."""
    if not square or gaussian_delta(Fraction(0), square)[1] <= delta:
        return Fraction(0)
    mu = math.sqrt(square)
    guess = mu * mu / 2 + mu * math.sqrt(2 * max(0.0, -math.log(delta)))
    steps = least_steps(
        lambda n: gaussian_delta(Fraction(n, _STEPS), square)[1] <= delta,
        math.ceil(guess * _STEPS),
    )
    return Fraction(steps, _STEPS)


@dataclass(frozen=True)
class ProjectionLoss:
    """One released projection of `length` coordinates, of which each moves by at most `items`."""

    length: int
    variance: Fraction
    items: int
    edge: Fraction  # probability that one coordinate comes within `items` of the table's edge

    @classmethod
    def of_table(cls, table: NoiseTable, length: int, items: int) -> ProjectionLoss:
        """Return the loss of a noise table; ValueError unless at least one item changes."""
        if items < 1:
            raise ValueError(f"items {items}: at least one item changes")
        inside = table.counts[: max(0, len(table.counts) - items)]
        within = 2 * sum(inside) - inside[0] if inside else 0
        return cls(length, table.variance, items, 1 - Fraction(within, TOTAL))

    def square(self, count: int) -> Fraction:
        """Return mu^2 of `count` profiles."""
        return count * self.length * self.items**2 / self.variance

    def losses(self, count: int) -> tuple[float, ...]:  # noqa: ARG002 (the protocol's signature)
        """Return none: the sum of all coordinates is nearly continuous."""
        return ()

    def largest(self, count: int) -> float:  # noqa: ARG002
        """Return inf."""
        return math.inf

    def log_moment(self, order: float, count: int) -> float:
        """Return order (1 + order) mu^2 / 2."""
        return order * (1 + order) * float(self.square(count)) / 2

    def grid(self, spacing: Fraction, count: int) -> tuple[GridLoss, int]:
        """Return the loss of all `count` profiles together, split to the grid."""
        coordinates, eta = count * self.length, uneven(self.variance)
        deviation = math.sqrt(coordinates * self.variance)
        reach = math.ceil(_REACH * deviation)
        width = 1 + 2 * reach // _BLOCKS
        starts = np.arange(-reach, reach + 1, width, dtype=np.float64)
        # A block of values of T counts with its largest loss and its largest probability.
        nearest = np.where(starts > 0, starts, np.minimum(0.0, starts + (width - 1)))
        factor = round_up(self._factor(coordinates, eta)) * width
        masses = np.exp(-((nearest / deviation) ** 2) / 2) * (
            factor / (deviation * math.sqrt(2 * math.pi)) * (1 + 1e-12)
        )
        most = coordinates * (Fraction(self.items**2, 2) / self.variance + 2 * eta / (1 - eta))
        slope = Fraction(self.items) / self.variance
        losses = float(most) - starts * float(slope)
        losses += 8 * UNIT * (float(most) + reach * float(slope))
        infinite = min(Fraction(1), coordinates * self.edge + Fraction(factor) / 2**110)
        return split(losses, masses, spacing, round_up(infinite)), 1

    def renyi(self, order: Fraction) -> tuple[Fraction, Fraction]:
        """Return a mu^2 / 2 (Canonne, Kamath and Steinke 2020, Thm 14) and what the table adds.

        Within the table's reach p^a q^(1-a) grows by (1 + eta)^a (1 - eta)^(1-a) a coordinate.
        """
        eta = uneven(self.variance)
        table = self.length * eta * (order / (order - 1) + 1 / (1 - eta))
        return order * self.square(1) / 2 + table, min(Fraction(1), self.length * self.edge)

    def _factor(self, coordinates: int, eta: Fraction) -> Fraction:
        """Return an upper bound of R (1 + eta)^(nL)."""
        wave = (
            Fraction(21, 10) * exponential(-Fraction(98, 10) * min(self.variance, Fraction(20)))[1]
        )
        return exponential(coordinates * (2 * wave / (1 - wave) + eta))[1]
