"""PNCF: noise on the similarities of chosen neighbours (Guerraoui et al. 2017, section 5.3).

    printed     s + Lap(2 Delta / epsilon')        epsilon' / 2 for EACH of k similarities
    Laplace     s + Lap(2 k Delta / epsilon')      epsilon' / 2 for all k together
    Gaussian    s + N(0, sigma^2)                  the same at delta, sigma ~ sqrt(k) Delta

One person may move all k similarities by Delta each, so the printed noise costs k epsilon' / 2.

Noise is drawn in whole units of a grid, discrete Laplace from a table (`research/noise_shares.py`,
whose digits cost a `delta` of 1e-6 at most) or exactly discrete Gaussian: a float of noise shows
more than its law (Mironov 2012). A similarity is rounded to the grid first, which adds one unit to
what a person moves it by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from research.noise_shares import PolyaShares
from research.xmap.replacement import check_selection
from stream_app.privacy.gaussian.certificate import NoisySum, largest_square, least_variance
from stream_app.privacy.gaussian.sampling import LARGEST_VARIANCE, discrete_gaussian
from stream_app.privacy.privacy_map import Adjacency
from stream_app.privacy.randomness import RandomSource

_FINEST = Fraction(1, 10_000)  # epsilon of a unit that noise can be drawn for
_UNITS, _FEW = 64, 16
_QUICK = 2**22  # squared units: the table of such noise takes milliseconds
LARGEST_DELTA = 1e-6


@dataclass(frozen=True)
class LaplaceSimilarities:
    """Noise on k similarities; epsilon: epsilon', of which all k together spend half.

    inf adds nothing. Raises ValueError for an epsilon so small that the noise cannot be drawn; 0 is
    refused, since noise of no density protects fully and says nothing.
    """

    k: int
    epsilon: float
    sensitivity: float

    def __post_init__(self) -> None:
        _check(self.k, self.epsilon, self.sensitivity)
        if self.epsilon < math.inf and self.scale < _FINEST:
            raise ValueError(
                f"epsilon {self.epsilon:g} for {self.k} similarities: needs wider noise than can "
                f"be drawn; give {float(4 * self.k * _FINEST):g} or more"
            )
        if self.delta > LARGEST_DELTA:
            raise ValueError(
                f"epsilon {self.epsilon:g} for {self.k} similarities: the table of the noise is "
                "too coarse for so little of it; take Gaussian noise"
            )

    @property
    def adjacency(self) -> Adjacency:
        """What epsilon is about: all ratings of one person."""
        return Adjacency.USER if self.epsilon < math.inf else Adjacency.NOTHING

    @property
    def units(self) -> int:
        """Delta in units of the grid, without the unit that rounding adds."""
        each = self.epsilon / (2 * self.k)
        return max(1, min(int(512 * each), max(_UNITS, math.ceil(each / 8))))

    @property
    def scale(self) -> Fraction:
        """The epsilon of a change by one unit in one similarity."""
        return Fraction(self.epsilon) / (2 * self.k * (self.units + 1))

    @property
    def delta(self) -> float:
        """What the digits of the table of the noise add: the release is (epsilon' / 2, delta)."""
        if self.epsilon == math.inf:
            return 0.0
        return _laplace(self.scale).slack(self.k, self.epsilon / 2)

    def release(self, similarities: ArrayLike, source: RandomSource) -> NDArray[np.float64]:
        """Return similarities (k,) with noise; fewer than k may be given."""
        values = _given(similarities, self.k)
        if self.epsilon == math.inf:
            return values
        grid = self.sensitivity / self.units
        noise = _laplace(self.scale).draw(len(values), source)
        return np.asarray((np.rint(values / grid) + noise) * grid)


@dataclass(frozen=True)
class GaussianSimilarities:
    """Gaussian noise on k similarities: (epsilon' / 2, delta) for all of them together."""

    k: int
    epsilon: float
    sensitivity: float
    delta: float = 1e-6

    def __post_init__(self) -> None:
        _check(self.k, self.epsilon, self.sensitivity)
        if not 0 < self.delta < 1:
            raise ValueError(f"delta {self.delta}: must be above 0 and below 1")
        if self.epsilon < math.inf:
            try:
                self.law  # noqa: B018 (raises for noise that cannot be drawn)
            except ValueError:
                raise ValueError(
                    f"epsilon {self.epsilon:g} for {self.k} similarities: needs wider noise than "
                    "can be drawn; give more"
                ) from None

    @property
    def adjacency(self) -> Adjacency:
        """What epsilon is about: all ratings of one person."""
        return Adjacency.USER if self.epsilon < math.inf else Adjacency.NOTHING

    @cached_property
    def units(self) -> int:
        """Delta in units of the grid: fewer where the noise would be wider than can be drawn."""
        square = float(largest_square(*self._budget, self.k)) / self.k / 2
        quick, drawn = (math.isqrt(int(most * square)) for most in (_QUICK, LARGEST_VARIANCE))
        return max(1, min(_UNITS, max(quick, _FEW), drawn - 1))

    @property
    def grid(self) -> float:
        """A unit of the grid, as a similarity."""
        return self.sensitivity / self.units

    @cached_property
    def law(self) -> NoisySum:
        """The noise as certified: bound on what one person moves and variance, in units."""
        bound = math.isqrt(self.k * (self.units + 1) ** 2 - 1) + 1
        square = largest_square(*self._budget, self.k)
        return NoisySum(bound, least_variance(bound, square), self.k)

    @property
    def _budget(self) -> tuple[Fraction, Fraction]:
        return Fraction(self.epsilon) / 2, Fraction(self.delta)

    def release(self, similarities: ArrayLike, source: RandomSource) -> NDArray[np.float64]:
        """Return similarities (k,) with noise; fewer than k may be given."""
        values = _given(similarities, self.k)
        if self.epsilon == math.inf:
            return values
        noise = discrete_gaussian(self.law.variance, len(values), source)
        return np.asarray((np.rint(values / self.grid) + noise) * self.grid)


@lru_cache(maxsize=8)
def _laplace(scale: Fraction) -> PolyaShares:
    return PolyaShares(scale, 1)  # the table of its law is made once


def _check(k: int, epsilon: float, sensitivity: float) -> None:
    check_selection(epsilon, sensitivity)
    if k < 1:
        raise ValueError(f"{k} similarities: must be 1 or more")
    if not epsilon:
        raise ValueError("epsilon 0: noise that reveals nothing has no density; release none")


def _given(similarities: ArrayLike, most: int) -> NDArray[np.float64]:
    values = np.asarray(similarities, np.float64).reshape(-1)
    if len(values) > most:
        raise ValueError(f"{len(values)} similarities: the noise is for {most}")
    if not np.isfinite(values).all():
        raise ValueError("a similarity is not a number")
    return values
