"""Contract of every mechanism over a whole profile: a set of items in, `profile_bytes` bytes out.

A profile is the set of items a user has rated, as distinct 64-bit keys. A mechanism turns it into
`profile_bytes` bytes under adjacency cell: one item added or removed.

The server computes from released profiles, as post-processing without any cost in epsilon:

    coordinates (m, L)    unbiased for the values before the noise
    sizes, overlaps       |P| of each, |A and B| of every pair

Sizes are noisy; with a prior of mean c0 and standard deviation s0 their posterior mean is

    (c0 / s0^2 + size / v) / (1 / s0^2 + 1 / v),   v = size_variance(c0)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.randomness import RandomSource

LARGEST_EPSILON = Fraction(64)


class ProfileMechanism(ABC):
    """A local mechanism over a whole profile; a frozen value."""

    length: int  # L, the number of bits or coordinates
    epsilon: Fraction | None  # the claim per item and release; None without noise
    delta: Fraction  # of the claim; 0 for pure differential privacy
    family: ClassVar[str]

    @property
    @abstractmethod
    def id(self) -> str:
        """The name, `family:length:...`."""

    @property
    @abstractmethod
    def profile_bytes(self) -> int:
        """Size of a released profile."""

    @property
    def no_estimate(self) -> str:
        """The reason why the estimators return NaN; empty if they do not."""
        return ""

    @abstractmethod
    def release(self, items: NDArray[np.uint64], source: RandomSource) -> NDArray[np.uint8]:
        """Turn distinct item keys (c,) into (profile_bytes,) uint8; takes the same number of words
        for any profile. ValueError before a word is drawn for other items."""

    @abstractmethod
    def log_likelihood(self, released: NDArray[np.uint8], items: NDArray[np.uint64]) -> float:
        """Return ln P(released | items), exact up to float64; -inf if it is impossible."""

    @abstractmethod
    def coordinates(self, released: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return unbiased coordinates of released profiles (m, profile_bytes), shape (m, L)."""

    @abstractmethod
    def sizes(self, coordinates: NDArray[np.float32], catalogue: int) -> NDArray[np.float64]:
        """Return |P| of each profile's coordinates, shape (m,), within 0 .. catalogue."""

    @abstractmethod
    def size_variance(self, size: float) -> float:
        """Return the variance of `sizes` at a true size."""

    @abstractmethod
    def overlaps(self, first: NDArray[np.uint8], second: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Return |A and B| of every pair of released profiles (m, profile_bytes) and (n,
        profile_bytes), shape (m, n)."""


def posterior_sizes(
    mechanism: ProfileMechanism,
    sizes: NDArray[np.float64],
    mean: float,
    deviation: float,
    catalogue: int,
) -> NDArray[np.float64]:
    """Return the posterior means of noisy sizes under a normal prior, within 1 .. catalogue."""
    variance, prior = mechanism.size_variance(mean), deviation**2
    if prior == 0 or not np.isfinite(variance):
        return np.full(len(sizes), np.clip(mean, 1, catalogue))
    if variance == 0:
        return np.clip(sizes, 1, catalogue)
    posterior = (mean / prior + sizes / variance) / (1 / prior + 1 / variance)
    return np.asarray(np.clip(posterior, 1, catalogue), np.float64)


def check_items(items: NDArray[np.uint64]) -> None:
    """Raise ValueError unless `items` are distinct keys, (c,) uint64."""
    if not isinstance(items, np.ndarray) or items.dtype != np.uint64 or items.ndim != 1:
        raise ValueError("items: give a one-dimensional uint64 array of item keys")
    if len(np.unique(items)) != len(items):
        raise ValueError("items: an item occurs twice in one profile; give each once")


def check_released(released: NDArray[np.uint8], size: int) -> None:
    """Raise ValueError unless `released` is (m, size) uint8."""
    if released.dtype != np.uint8 or released.ndim != 2 or released.shape[1] != size:
        raise ValueError(f"profiles of shape {released.shape}: give (m, {size}) bytes")


def check_epsilon(epsilon: Fraction, least: Fraction) -> None:
    """Raise ValueError unless epsilon is a Fraction in least .. 64 with at most six decimals."""
    if not isinstance(epsilon, Fraction):
        raise ValueError(  # noqa: TRY004 (one error for bad input)
            f"epsilon {epsilon}: give an exact number, Fraction(8) or Fraction(1, 2)"
        )
    if not least <= epsilon <= LARGEST_EPSILON or epsilon.denominator > 10**6:
        raise ValueError(
            f"epsilon {float(epsilon):g}: {least} to {LARGEST_EPSILON}, with at most six decimals"
        )
