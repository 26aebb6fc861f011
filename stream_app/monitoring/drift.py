"""Drift: whether the newest observations of a figure are worse than those before (Page 1954; with
the running mean as reference: Mouss et al. 2004, "Test of Page-Hinkley").

    mean_t = mean of x_1 .. x_t, of a memory of `MEMORY` observations
    s_t^2  = mean of (x_i - x_(i-1))^2 / 2        (von Neumann 1941: a slow trend widens it little)
    z_t    = (x_t - mean_t) / max(s_t, standard error of x_t where that is known)
    m_t    = sum over i <= t of (z_i - ALLOWANCE)
    PH_t   = m_t - min over i <= t of m_i = max(0, PH_(t-1) + z_t - ALLOWANCE)
    drift  <=>  PH_t > THRESHOLD, after `LEAST` observations

An observation is of many independent events, so that z is nearly normal. After a detection the
detector starts over: the mean is then that of what came since. Measured on normal noise: one false
call in 170,000 observations; after 100 observations a rise by one, two and four deviations is found
27, 7.5 and 3.4 observations later, in .97, .997 and .998 of the runs. Two figures are watched:

    error   the debiased squared error, of blocks of ratings; larger is worse
    lists   nDCG@10 of popular items less that of the served lists, each time that the sample of
            devices by which lists are measured is a new one

Where a channel has no inverse there is no debiased error, and nothing is watched.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite, sqrt
from typing import Final

import numpy as np

from stream_app.monitoring.prequential_error import Floats

ALLOWANCE: Final = 0.5
THRESHOLD: Final = 10.0
MEMORY: Final = 200
LEAST: Final = 10
BLOCK: Final = 1_000
HIDDEN_BLOCK: Final = 10_000
"""Of cells, where presence is protected: few of them are ratings."""


class PageHinkley:
    """One detector of rises; `statistic` is PH over its threshold."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget every observation."""
        self.statistic = 0.0
        self._count, self._mean, self._last, self._squares = 0, 0.0, 0.0, 0.0

    def add(self, value: float, error: float = 0.0) -> bool:
        """Enter an observation with its standard error, 0 where that is not known; return whether
        it completes a drift. A value that is not finite is left out."""
        if not isfinite(value):
            return False
        weight = 1 / min(self._count + 1, MEMORY)
        if self._count:
            share = 1 / min(self._count, MEMORY)
            self._squares += ((value - self._last) ** 2 / 2 - self._squares) * share
        self._mean += (value - self._mean) * weight
        self._count, self._last = self._count + 1, value
        deviation = max(sqrt(self._squares), error)
        if self._count <= LEAST or not deviation > 0:
            return False
        above = (value - self._mean) / deviation - ALLOWANCE
        self.statistic = max(0.0, self.statistic + above / THRESHOLD)
        if self.statistic <= 1:
            return False
        self.restart()
        return True


class Blocks:
    """Means of consecutive debiased errors, whatever the batches in which they come."""

    def __init__(self) -> None:
        self._errors, self._weights, self._count = 0.0, 0.0, 0

    def add(self, errors: Floats, weights: Floats | None = None) -> Iterator[float]:
        """Add errors (n,) with their weights, 1 each where None; a NaN is unknown. Yield the mean
        of each block that is complete; NaN where its weights are no more than noise."""
        known = ~np.isnan(errors)
        if not known.all():
            errors, weights = errors[known], None if weights is None else weights[known]
        size = BLOCK if weights is None else HIDDEN_BLOCK
        start = 0
        while start < len(errors):
            end = start + max(1, size - self._count)
            part = errors[start:end]
            self._errors += float(part.sum())
            self._weights += len(part) if weights is None else float(weights[start:end].sum())
            self._count += len(part)
            start = end
            if self._count >= size:
                yield self._errors / self._weights if self._weights > 0 else float("nan")
                self._errors, self._weights, self._count = 0.0, 0.0, 0


class ListDrift(PageHinkley):
    """The detector of lists that become worse against popular items."""

    def restart(self) -> None:
        """Forget every observation."""
        super().restart()
        self._ratings = 0

    def observe(
        self, ndcg: float | None, popular: float | None, error: float, ratings: int, visits: int
    ) -> bool | None:
        """Enter the nDCG@10 of lists, with its standard error, and that of popular items, as
        measured when so many `ratings` were counted, on devices whose newest visits hold `visits`
        of them; return whether it completes a drift. None, and nothing is entered, without a
        figure, or while most of these visits were measured before: observations that share devices
        are no evidence of each other."""
        if ndcg is None or popular is None:
            return None
        if ratings - self._ratings < visits:
            return None
        detected = self.add(popular - ndcg, error)
        self._ratings = ratings
        return detected
