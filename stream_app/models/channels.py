"""The exact channels of an allow-list of mechanisms as arrays, for decoding and debiasing.

    likelihood[c, z, v] = P(report = z | level = v) under mechanism c   (C, Zmax, Lmax), zero filled

Level v of L is the internal rating ("stars")  1 + 4 v / (L - 1),  whatever the data's own scale.

Debiasing. Where the channel can be inverted there are functions of the report with

    E[value(z) | r] = r,   E[square(z) | r] = r^2,   so   f_t(z) = square(z) - 2 t value(z) + t^2
    has   E[f_t(z) | r] = (r - t)^2

and the mean of f_t(z) over events estimates the squared error of predictions t against the true
ratings without seeing one. The solution of least norm is taken; a channel that cannot be inverted
(a partition of the levels, epsilon = 0) gets NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.mechanism import Mechanism

LOWEST, HIGHEST = 1.0, 5.0
_INVERSION_TOLERANCE = 1e-8


def stars_of(levels: int) -> NDArray[np.float64]:
    """Return the internal rating of each of `levels` levels, 1 .. 5."""
    return LOWEST + (HIGHEST - LOWEST) * np.arange(levels) / (levels - 1)


@dataclass(frozen=True, eq=False)
class Channels:
    """Mechanism number c (its place in the allow-list) as a row of each table; see the module."""

    likelihood: NDArray[np.float64]  # (C, Zmax, Lmax)
    alphabets: NDArray[np.int64]  # (C,)
    levels: NDArray[np.int64]  # (C,)
    exact: NDArray[np.bool_]  # (C,) the report is the level itself
    value: NDArray[np.float64]  # (C, Zmax)
    square: NDArray[np.float64]  # (C, Zmax)
    reading: NDArray[np.float64]  # (C, Zmax) the report taken as the rating

    def __len__(self) -> int:
        return len(self.alphabets)

    @classmethod
    def of(cls, mechanisms: Sequence[Mechanism]) -> Channels:
        """Return the tables of `mechanisms` in their order; ValueError for an unusable channel."""
        if not 1 <= len(mechanisms) <= 256:
            raise ValueError(f"{len(mechanisms)} mechanisms: an allow-list has 1 to 256")
        channels = [_checked(mechanism) for mechanism in mechanisms]
        many = len(channels)
        alphabets = np.array([c.shape[0] for c in channels], np.int64)
        levels = np.array([c.shape[1] for c in channels], np.int64)
        wide, deep = int(alphabets.max()), int(levels.max())
        likelihood = np.zeros((many, wide, deep))
        value, square, reading = np.full((3, many, wide), np.nan)
        exact = np.zeros(many, np.bool_)
        for c, channel in enumerate(channels):
            z, v = channel.shape
            likelihood[c, :z, :v] = channel
            exact[c] = z == v and np.array_equal(channel, np.eye(z))
            stars = stars_of(v)
            value[c, :z] = _inverse(channel, stars)
            square[c, :z] = _inverse(channel, stars**2)
            reading[c, :z] = stars_of(z) if z > 1 else (LOWEST + HIGHEST) / 2
        return cls(likelihood, alphabets, levels, exact, value, square, reading)

    def stars(
        self, mechanisms: NDArray[np.integer], reports: NDArray[np.integer]
    ) -> NDArray[np.float64]:
        """Return each report read as if it were the rating, on 1 .. 5: the naive reading."""
        return np.asarray(self.reading[mechanisms, reports])

    def squared_errors(
        self,
        predicted: NDArray[np.float64],
        mechanisms: NDArray[np.integer],
        reports: NDArray[np.integer],
    ) -> NDArray[np.float64]:
        """Return f_t(z), whose mean is that of (r - t)^2; NaN for a channel without an inverse."""
        value, square = self.value[mechanisms, reports], self.square[mechanisms, reports]
        return np.asarray(square - 2 * predicted * value + predicted**2)


def _checked(mechanism: Mechanism) -> NDArray[np.float64]:
    channel = np.asarray(mechanism.likelihood(), np.float64)
    z, v = mechanism.alphabet, mechanism.levels
    if channel.shape != (z, v):
        raise ValueError(f"{mechanism.id}: channel of shape {channel.shape}, expected {(z, v)}")
    if not 2 <= v <= 256 or not 1 <= z <= 256:
        raise ValueError(f"{mechanism.id}: {v} levels and {z} reports; 2 and 1 to 256 are possible")
    if not (np.isfinite(channel).all() and (channel >= 0).all()):
        raise ValueError(f"{mechanism.id}: a probability is negative or not a number")
    if np.abs(channel.sum(0) - 1).max() > 1e-9:
        raise ValueError(f"{mechanism.id}: the reports of a level do not sum to probability 1")
    return channel


def _inverse(channel: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the f of least norm with sum_z L[z, v] f(z) = wanted[v] for every v, or NaN."""
    f = np.linalg.pinv(channel.T) @ wanted
    found = channel.T @ f
    good = np.abs(found - wanted).max() <= _INVERSION_TOLERANCE * np.abs(wanted).max()
    return f if good else np.full(len(channel), np.nan)
