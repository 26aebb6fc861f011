"""From the attacker's statistic with and without the person to lower bounds of what was spent.

For a set A = {statistic > t}, with p = P(A | present), q = P(A | absent):

    (epsilon, delta)   p <= e^epsilon q + delta,  1 - q <= e^epsilon (1 - p) + delta
    mu                 Phi^-1(p) - Phi^-1(q) <= mu      (Dong, Roth and Su 2022, Definition 2.6)

p and q are bounded by their counts (Clopper and Pearson 1934). The thresholds t are fixed before a
run: multiples of the claimed mu for epsilon, 0 for mu. Each of the two bounds holds with a
probability of at least 1 - `alpha`. The first inequality refutes a claim of any mechanism, but a
thousand runs cannot show more than about ln(1000 / 5); the second, for claims that are a whole
Gaussian curve, sees smaller faults.
`epsilon_of_mu` carries it to the delta of the claim, which takes the curve for granted: an
estimate, where the claim is refuted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from consumers.audit.tail_check import at_least, at_most
from stream_app.privacy.exact.gaussian_calibration import gaussian_epsilon

ALPHA = 0.05
_DEVIATIONS = (-2.0, -1.0, 0.0, 1.0, 2.0)  # of the statistic, where the thresholds are
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Finding:
    """A claim of an audit; `holds`: it was not shown to be false by what was measured."""

    claim: str
    holds: bool
    measured: str


@dataclass(frozen=True)
class Bounds:
    """Lower bounds of epsilon at a delta and of mu, and an estimate of mu without its error."""

    epsilon: float
    mu: float
    mu_estimate: float


def thresholds(square: float) -> tuple[float, ...]:
    """Return where the statistic of a claim of this mu^2 is cut."""
    mu = math.sqrt(square)
    return tuple(mu * each for each in _DEVIATIONS)


def measured(
    present: NDArray[np.float64],
    absent: NDArray[np.float64],
    cuts: tuple[float, ...],
    delta: float,
    alpha: float = ALPHA,
) -> Bounds:
    """Return what the statistics (n,) and (m,) of both worlds show."""
    epsilon = 0.0
    for cut in cuts:
        p, q = _beyond(present, absent, cut, alpha / (2 * len(cuts)))
        for more, less in ((p, q), (1 - q, 1 - p)):
            if more > delta:
                epsilon = max(epsilon, math.log((more - delta) / less))
    p, q = _beyond(present, absent, 0.0, alpha / 2)
    mu = _NORMAL.inv_cdf(p) - _NORMAL.inv_cdf(q) if p > 0 and q < 1 else 0.0
    return Bounds(epsilon, max(0.0, mu), _mu(present, absent))


def _beyond(
    present: NDArray[np.float64], absent: NDArray[np.float64], cut: float, alpha: float
) -> tuple[float, float]:
    """Return a lower bound of P(A | present) and an upper one of P(A | absent)."""
    p = at_least(int((present > cut).sum()), len(present), alpha)
    q = at_most(int((absent > cut).sum()), len(absent), alpha)
    return p, q


def _mu(present: NDArray[np.float64], absent: NDArray[np.float64]) -> float:
    """Return the distance of the means in standard deviations; inf without any spread."""
    distance = float(present.mean() - absent.mean())
    spread = math.sqrt((float(present.var()) + float(absent.var())) / 2)
    return distance / spread if spread else math.inf if distance else 0.0


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Return the epsilon at `delta` of the Gaussian curve of `mu`."""
    if not math.isfinite(mu) or mu > 100:
        return math.inf
    return float(gaussian_epsilon(Fraction(delta), Fraction(mu * mu))) if mu > 0 else 0.0
