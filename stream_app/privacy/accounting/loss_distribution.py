"""Privacy loss distributions of composed mechanisms: epsilon(delta) that is never below the truth.

A distribution is a multiset: dominating pairs (or campaigns) with counts. Composing adds
counts, so nothing is rounded or truncated on the way; one convolution (`tilted_sum.py`) answers a
question. For the sum L of the independent losses of all members, with P the law of the first input,

    delta(epsilon) = E_P[(1 - e^(epsilon - L))+]                                              (1)

is exact for the product of the pairs (Sommer, Meiser and Mohammadi 2019, Thm 1; Koskela, Jalkoe
and Honkela 2020), and (1) with rounded-up losses and masses is an upper bound. The grid is the
coarsest that holds all losses (spacing epsilon for randomized response); where there is none, it
divides the window of the sum into 2^18 points.

Every epsilon that is returned passes the test delta(epsilon) <= delta on computed bounds, whatever
the search that found it; it is also at most the sum of the largest losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.accounting.dominating_pair import DominatingPair, log_ratio
from stream_app.privacy.accounting.loss_grid import GridLoss, on_grid
from stream_app.privacy.accounting.renyi import divergence
from stream_app.privacy.accounting.tilted_sum import TiltedSum, tilted_sum

POINTS = 2**18
_LATTICE = 48  # the largest number of grid points from 0 to the largest loss of a natural grid
_FINE = 2**60
_TRIALS = 100  # of a search; it takes about ten
_ACCURACY = 1e-8
_CANDIDATES = 2**14  # grids of which the best is taken
_STEEP = 40.0  # e^-40, the share of the other losses


class Loss(Protocol):
    """One kind of member; hashable, so that counts can be added."""

    def losses(self, count: int) -> tuple[float, ...]:
        """Return guesses of the finite losses whose common grid is sought; empty: any grid fits."""

    def largest(self, count: int) -> float:
        """Return an upper bound of the loss of `count` members; inf without one."""

    def log_moment(self, order: float, count: int) -> float:
        """Return a guess of ln E[e^(order L)] of `count` members."""

    def grid(self, spacing: Fraction, count: int) -> tuple[GridLoss, int]:
        """Return a loss on the grid and how often it is to be added for `count` members."""

    def renyi(self, order: Fraction) -> Fraction:
        """Return a bound of the Renyi divergence of a member."""


@dataclass(frozen=True)
class PairLoss:
    """The loss of a dominating pair."""

    pair: DominatingPair

    def losses(self, count: int) -> tuple[float, ...]:  # noqa: ARG002 (the protocol's signature)
        """Return the logarithms of the finite ratios."""
        return tuple(log_ratio(p, q) for p, q in self.pair.atoms if p and q)

    def largest(self, count: int) -> float:
        """Return `count` times the logarithm of the largest ratio."""
        p, q = self.pair.atoms[0]
        return count * log_ratio(p, q) * (1 + 2**-48) if q else math.inf

    def log_moment(self, order: float, count: int) -> float:
        """Return count * ln sum p (p / q)^order over the finite losses; -inf without any."""
        terms = [
            math.log(p / self.pair.total) + order * log_ratio(p, q)
            for p, q in self.pair.atoms
            if p and q
        ]
        if not terms:
            return -math.inf
        top = max(terms)
        return count * (top + math.log(sum(math.exp(term - top) for term in terms)))

    def grid(self, spacing: Fraction, count: int) -> tuple[GridLoss, int]:
        """Return the split pair, to be added `count` times."""
        return _on_grid(self.pair, spacing), count

    def renyi(self, order: Fraction) -> Fraction:
        """Return the divergence of the pair."""
        return divergence(self.pair, order)


_on_grid = lru_cache(maxsize=64)(on_grid)


@dataclass(frozen=True)
class LossDistribution:
    """A multiset of independent losses; the empty one is a loss of 0.

    >>> from stream_app.privacy.registry import parse
    >>> from stream_app.privacy.accounting.dominating_pair import value_pairs
    >>> pair = DominatingPair.covering(value_pairs(parse("rr:5:1/10").table()))
    >>> hundred = LossDistribution.single(PairLoss(pair)).self_composed(100)
    >>> round(hundred.epsilon(1e-6), 3)
    2.957
    """

    members: tuple[tuple[Loss, int], ...] = ()

    @classmethod
    def single(cls, loss: Loss) -> LossDistribution:
        """Return the distribution of one loss."""
        return cls(((loss, 1),))

    def compose(self, other: LossDistribution) -> LossDistribution:
        """Return the distribution of the sum of both losses."""
        counts = dict(self.members)
        for loss, count in other.members:
            counts[loss] = counts.get(loss, 0) + count
        return LossDistribution(tuple(counts.items()))

    def self_composed(self, count: int) -> LossDistribution:
        """Return the distribution of `count` independent copies; ValueError for a negative one."""
        if count < 0:
            raise ValueError(f"count {count}: 0 or more releases")
        return LossDistribution(tuple((loss, n * count) for loss, n in self.members if n * count))

    def delta(self, epsilon: float) -> float:
        """Return an upper bound of delta at epsilon >= 0, at most 1."""
        if epsilon < 0:
            raise ValueError(f"epsilon {epsilon}: 0 or more")
        if not self.members or epsilon >= self._largest():
            return 0.0
        if self._is_disjoint():
            return 1.0
        order = self._order(lambda s: self._log_moment(s) - s * epsilon + _conversion(s))
        return self._sum(order, epsilon).delta(epsilon)

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon, rounded up, whose bound of delta is at most `delta`; or inf."""
        if not 0 <= delta <= 1:
            raise ValueError(f"delta {delta}: a probability")
        largest = self._largest()
        if not delta or not largest:
            return largest
        if self._is_disjoint():
            return math.inf if delta < 1 else 0.0

        def converted(order: float) -> float:
            return (self._log_moment(order) + _conversion(order) - math.log(delta)) / order

        order = self._order(converted)
        guess = min(largest, max(converted(order), 1e-6))
        return min(largest, _smallest_epsilon(self._sum(order, guess), delta, guess))

    def _order(self, function: Callable[[float], float]) -> float:
        """Return about where the bound of an order is best.

        Near the sum of the largest losses that is at infinity, where nothing else is resolved; an
        order of `_STEEP` over the largest loss puts nearly all mass there and is enough.
        """
        most = max(loss.largest(1) for loss, _ in self.members)
        return min(_least(function), _STEEP / most if most < math.inf else math.inf)

    def _is_disjoint(self) -> bool:
        """Return whether some member has no finite loss: one report decides between the worlds."""
        return any(loss.log_moment(1.0, count) == -math.inf for loss, count in self.members)

    def _largest(self) -> float:
        return sum(loss.largest(count) for loss, count in self.members)

    def _log_moment(self, order: float) -> float:
        return sum(loss.log_moment(order, count) for loss, count in self.members)

    def _sum(self, order: float, epsilon: float) -> TiltedSum:
        spacing = self._spacing(order, epsilon)
        return tilted_sum(
            [loss.grid(spacing, count) for loss, count in self.members],
            spacing,
            order * float(spacing),
        )

    def _spacing(self, order: float, epsilon: float) -> Fraction:
        """Return the spacing of the natural grid, or a fine one.

        n split losses raise epsilon by about n h^2 / 8: at most a share `_ACCURACY` of it, unless
        the window would have more than `POINTS` points. A natural grid beside a loss that has any
        grid is divided until it is fine, too.
        """
        losses = [loss for member, count in self.members for loss in member.losses(count)]
        most = max((abs(loss) for loss in losses), default=0.0)
        natural = _natural(losses, most)
        if natural and all(member.losses(count) for member, count in self.members):
            return Fraction(math.ceil(natural * _FINE), _FINE)
        width = 1e-4 * order
        slopes = [self._log_moment(order + step) for step in (-width, 0.0, width)]
        square = max(slopes[0] - 2 * slopes[1] + slopes[2], 0.0) / width**2
        count = sum(n for member, n in self.members if member.losses(n))
        accurate = math.sqrt(8 * _ACCURACY * max(epsilon, 1e-3) / max(1, count))
        spacing = max(24 * math.sqrt(square) / POINTS, accurate)
        if natural:
            spacing = natural / max(1, math.ceil(natural / spacing))
        elif most:
            spacing = most / _steps(np.array(losses) / most, max(1, math.ceil(most / spacing)))
        return Fraction(max(1, math.ceil(spacing * _FINE)), _FINE)


def _natural(losses: list[float], most: float) -> float:
    """Return the spacing of the coarsest grid that holds all losses, at most `_LATTICE` points to
    the largest; 0 without one."""
    for steps in range(1, _LATTICE + 1) if most else ():
        spacing = most / steps
        if all(abs(loss / spacing - round(loss / spacing)) < 1e-9 for loss in losses):
            return spacing
    return 0.0


def _steps(losses: NDArray[np.float64], least: int) -> int:
    """Return the steps of a grid on 0 .. 1, `least` or up to twice as many, that is closest to
    `losses` (m,): a loss near a grid point is hardly split."""
    steps = np.arange(least, 2 * least + 1)[:_CANDIDATES]
    scaled = np.abs(steps[:, None] * losses)
    return int(steps[np.abs(scaled - np.round(scaled)).max(axis=1).argmin()])


def _conversion(order: float) -> float:
    """Return ln(s^s / (1 + s)^(1 + s)): the largest (1 - e^-x) e^(-s x)."""
    return order * math.log(order) - (1 + order) * math.log1p(order)


def _least(function: Callable[[float], float]) -> float:
    """Return about where a function of an order has its minimum; golden section over 1e-4 .. 1e4.

    Every order gives a valid bound, so the search needs no proof.
    """
    ratio = (math.sqrt(5) - 1) / 2
    low, high = math.log(1e-4), math.log(1e4)
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    values = function(math.exp(left)), function(math.exp(right))
    while high - low > 1e-3:
        if values[0] <= values[1]:
            high, right = right, left
            left = high - ratio * (high - low)
            values = function(math.exp(left)), values[0]
        else:
            low, left = left, right
            right = low + ratio * (high - low)
            values = values[1], function(math.exp(right))
    return math.exp((low + high) / 2)


def _smallest_epsilon(total: TiltedSum, delta: float, guess: float) -> float:
    """Return an epsilon with total.delta(epsilon) <= delta, close above the least one; or inf.

    A regula falsi on ln delta (Illinois form); `high` always passes the test.
    """
    goal, found = math.log(delta), dict[float, float]()

    def excess(epsilon: float) -> float:
        found[epsilon] = math.log(max(total.delta(epsilon), 1e-300)) - goal
        return found[epsilon]

    if excess(0.0) <= 0:
        return 0.0
    low, high = 0.0, guess
    while excess(high) > 0:
        low, high = high, 1.1 * high
        if high > 1e7:
            return math.inf
    above, below = found[low], found[high]
    for _ in range(_TRIALS):
        if high - low <= 1e-12 * high:
            break
        middle = low + (high - low) * above / (above - below) if above < 20 else (low + high) / 2
        middle = min(max(middle, low + 1e-3 * (high - low)), high - 1e-3 * (high - low))
        value = excess(middle)
        if value <= 0:
            high, below, above = middle, value, above / 2
        else:
            low, above, below = middle, value, below / 2
    return high
