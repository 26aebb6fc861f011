"""JLT: a user's items as a sum of random sign vectors plus discrete Gaussian noise.

    Y = (sum over j in P of X_j + N) / sqrt(L)        (Balu 2016, s. 3.2.1; Kenthapadi 2012)

X_j is the vector of L signs of item j (`codebook.py`), so every codeword X_j / sqrt(L) has length
exactly 1, for every codebook and not only for most. N has L independent discrete Gaussians of
variance V = L (4 / epsilon)^2 ln(1 / delta), sigma^2 = V / L: Lemma 2 of Kenthapadi et al. as in
Balu 2016, eq. 3.10. The release is the integer vector sqrt(L) Y: nothing is rounded, and adding or
removing one item changes every coordinate by exactly 1.

A reproduction: the lemma holds for epsilon < ln(1 / delta) alone, and where it does, its deviation
is about three times what the analytic Gaussian needs (`gaussian_calibration.analytic_variance`).

A released profile is L integers, little-endian, of 2 bytes (4 where the noise needs them). epsilon
None (with delta 0) adds no noise and protects nothing; there is no epsilon 0.

Estimators, unbiased over codebooks and noise (without the factor L/(L-1) of Balu 2016, eq. 3.11,
unnecessary because the mean is known to be 0):

    |P| = sum Y^2 - L s^2                 |A and B| = <Y_a, Y_b>               s^2 = E[N^2] / L
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from research.profiles.codebook import signs
from research.profiles.noise_table import LEAST_VARIANCE, NoiseTable
from research.profiles.profile_mechanism import (
    ProfileMechanism,
    check_epsilon,
    check_items,
    check_released,
)
from stream_app.privacy.exact.gaussian_calibration import least_steps
from stream_app.privacy.exact.integer_tables import exp_bounds
from stream_app.privacy.randomness import RandomSource

LEAST_EPSILON = Fraction(1, 1000)
LEAST_DELTA = Fraction(1, 10**12)
LONGEST = 2**14
_STEPS = 64  # variances are multiples of 1/64
_BLOCK = 256  # items whose sign vectors are held at a time


@dataclass(frozen=True)
class JltPaper(ProfileMechanism):
    """A projection of `length` signs with the noise that the thesis gives (epsilon, delta) per
    item.

    ValueError outside 8 <= length <= 16384, 1/1000 <= epsilon <= 64, 10^-12 <= delta < 1, and if
    the noise needs a variance above 2^23.
    """

    length: int
    epsilon: Fraction | None
    delta: Fraction
    _table: NoiseTable | None = field(init=False, repr=False, compare=False)

    family: ClassVar[str] = "jltpaper"

    def __post_init__(self) -> None:
        if type(self.length) is not int or not 8 <= self.length <= LONGEST:
            raise ValueError(f"length {self.length!r}: a projection has 8 to {LONGEST} coordinates")
        _check_claim(self.epsilon, self.delta)
        table = None
        if self.epsilon is not None:
            steps = math.ceil(lemma_variance(self.epsilon, self.delta) * self.length * _STEPS)
            table = NoiseTable(max(Fraction(steps, _STEPS), LEAST_VARIANCE))
        object.__setattr__(self, "_table", table)

    @property
    def id(self) -> str:
        """The name, as jltpaper:1000:2:1/10."""
        epsilon = "inf" if self.epsilon is None else self.epsilon
        return f"{self.family}:{self.length}:{epsilon}:{self.delta}"

    @property
    def variance(self) -> Fraction:
        """V, the variance parameter of the integer noise; sigma^2 = V / L."""
        return Fraction(0) if self._table is None else self._table.variance

    @property
    def profile_bytes(self) -> int:
        """Size of a released profile."""
        return self.length * self._width

    @property
    def _width(self) -> int:
        reach = 0 if self._table is None else self._table.reach
        return 2 if reach + 2**14 < 2**15 else 4

    def project(self, items: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the sum of the sign vectors of item keys (c,) WITHOUT noise, shape (L,)."""
        total = np.zeros(self.length, np.int64)
        for start in range(0, len(items), _BLOCK):
            total += signs(items[start : start + _BLOCK], self.length).sum(axis=0, dtype=np.int64)
        return total

    def release(self, items: NDArray[np.uint64], source: RandomSource) -> NDArray[np.uint8]:
        """Turn distinct item keys (c,) into one released profile, with 2 L words of the source."""
        check_items(items)
        total = self.project(items)
        if self._table is not None:
            total += self._table.sample(source.words(2 * self.length))
        return np.ascontiguousarray(total.astype(f"<i{self._width}")).view(np.uint8)

    def log_likelihood(self, released: NDArray[np.uint8], items: NDArray[np.uint64]) -> float:
        """Return ln P(released | items) of the integer table; -inf if it is impossible."""
        noise = self.integers(released[None])[0] - self.project(items)
        if self._table is None:
            return -math.inf if noise.any() else 0.0
        return float(self._table.log_probabilities(noise).sum())

    def integers(self, released: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return sqrt(L) Y of released profiles (m, bytes), shape (m, L)."""
        check_released(released, self.profile_bytes)
        return np.ascontiguousarray(released).view(f"<i{self._width}").astype(np.int64)

    def coordinates(self, released: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return Y of released profiles (m, bytes), shape (m, L)."""
        return (self.integers(released) / math.sqrt(self.length)).astype(np.float32)

    def sizes(self, coordinates: NDArray[np.float32], catalogue: int) -> NDArray[np.float64]:
        """Return |P| of each profile's coordinates (m, L), within 0 .. catalogue."""
        squares = np.einsum("ml,ml->m", coordinates, coordinates, dtype=np.float64)
        return np.asarray(np.clip(squares - self._noise, 0.0, catalogue), np.float64)

    def size_variance(self, size: float) -> float:
        """Return the variance of `sizes` at a true size: 2 L (sigma^2 + c/L)^2."""
        return 2 * self.length * ((self._noise + size) / self.length) ** 2

    def overlaps(self, first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Return |A and B| of every pair of released profiles (m, bytes) and (n, bytes), (m, n)."""
        products: NDArray[np.float32] = self.coordinates(first) @ self.coordinates(second).T
        return products.astype(np.float64)

    @property
    def _noise(self) -> float:
        """L s^2: what the noise adds to sum Y^2."""
        return 0.0 if self._table is None else self._table.second_moment


def lemma_variance(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return 16 ln(1/delta) / epsilon^2, sigma^2 of Balu 2016, eq. 3.10, rounded up at bit 40."""
    wanted, unit = 1 / delta, 1 << 40
    guess = math.floor(math.log(wanted.numerator / wanted.denominator) * unit) - 2
    steps = least_steps(lambda n: exp_bounds(Fraction(n, unit))[0] >= wanted, guess)
    return 16 * Fraction(steps, unit) / epsilon**2


def _check_claim(epsilon: Fraction | None, delta: Fraction) -> None:
    if epsilon is None:
        if delta != 0 or not isinstance(delta, Fraction):
            raise ValueError(f"delta {delta}: without noise nothing is claimed; give Fraction(0)")
        return
    check_epsilon(epsilon, LEAST_EPSILON)
    if not isinstance(delta, Fraction):
        raise ValueError(  # noqa: TRY004 (one error for bad input)
            f"delta {delta}: give an exact number, Fraction(1, 10**6)"
        )
    if not LEAST_DELTA <= delta < 1:
        raise ValueError(f"delta {float(delta):g}: at least 10^-12 and below 1")
