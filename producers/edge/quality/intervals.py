"""Shares and means with 95 % intervals.

wilson       of h hits in n trials, with z = 1.96 (Wilson 1927):
                 (p + z^2/2n  -+  z sqrt(p (1 - p)/n + z^2/4n^2)) / (1 + z^2/n)
ratio        R = sum y_u / sum n_u over users u, whose lists are not independent:
                 error^2 = U/(U - 1) sum (y_u - R n_u)^2 / (sum n_u)^2   (Cochran 1977, 6.3)
difference   of two ratios over different users: R - S  -+  z sqrt(error_R^2 + error_S^2)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_Z = 1.959964

Column = NDArray[np.float64]


class Interval(NamedTuple):
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float


class Ratio(NamedTuple):
    """A ratio over users, and its standard error."""

    value: float
    error: float

    @property
    def interval(self) -> Interval:
        """The normal interval."""
        half = _Z * self.error
        return Interval(self.value, self.value - half, self.value + half)


def wilson(hits: int, trials: int) -> Interval | None:
    """Return the share of hits; None without a trial.

    >>> tuple(round(each, 4) for each in wilson(10, 100))
    (0.1, 0.0552, 0.1744)
    """
    if trials < 1:
        return None
    p, z2 = hits / trials, _Z**2 / trials
    half = _Z * (p * (1 - p) / trials + z2 / (4 * trials)) ** 0.5
    low, high = ((p + z2 / 2 + sign * half) / (1 + z2) for sign in (-1, 1))
    return Interval(p, max(low, 0.0), min(high, 1.0))


def ratio(sums: Column, counts: Column) -> Ratio | None:
    """Return the sum of sums (u,) over that of counts (u,); None for fewer than two users."""
    users, total = len(sums), float(counts.sum())
    if users < 2 or total <= 0:
        return None
    value = float(sums.sum()) / total
    squares = float(((sums - value * counts) ** 2).sum())
    return Ratio(value, (users / (users - 1) * squares) ** 0.5 / total)


def difference(first: Ratio | None, second: Ratio | None) -> Interval | None:
    """Return the first minus the second; None where one is not known."""
    if first is None or second is None:
        return None
    error = float(np.hypot(first.error, second.error))
    return Ratio(first.value - second.value, error).interval
