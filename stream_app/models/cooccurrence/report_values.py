"""The value of a report in fixed point, for sums over devices: unbiased through its exact channel.

    E[v(z) | r] = r        E[square(z) | r] = r^2        variance(z) = v(z)^2 - square(z)

in stars of the internal scale, 1 .. 5; r is the rating. The noise of two reports is independent, so
a difference of their values is unbiased, and so is their product; a product of a value with itself
is not, and `square` takes its place. E[variance(z) | r] = Var[v(z) | r].

A channel that cannot be inverted (a partition of the levels) has the posterior mean, square and
variance under equal probabilities of the levels. These are biased towards the middle of a group:
a sum of them is no estimate of the sum of ratings, only the best guess of each.

Values are rounded to multiples of 2^-shift stars, squares and variances to 4^-shift, with the
largest shift, at most 12, for which |v| <= 2^15, |square| <= 2^30, |variance| <= 2^31 in these
units: the bounds of `kernels/cooccurrence/co_rating_sums.py`. Rounding moves a value by at most
half a unit, 1/8192 star where no value is beyond 8 stars.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.cooccurrence.co_rating_sums import ROW_BITS
from stream_app.models.factorization.channels import Channels, stars_of

MOST_SHIFT = 12
MOST_VALUE, MOST_SQUARE, MOST_VARIANCE = 1 << 15, 1 << 30, 1 << 31
Column = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ReportValues:
    """The values of R reports by row: fixed (R, 3) int64, value, square, variance; 0 for a report
    that protects presence, which no list holds."""

    fixed: NDArray[np.int64]
    shift: int

    @classmethod
    def from_channels(cls, channels: Channels) -> ReportValues:
        """Return the values of an allow-list; ValueError where they are too large or too many."""
        rows = len(channels.value)
        if rows >= (1 << ROW_BITS) - 1:
            raise ValueError(
                f"co_ratings: the mechanisms have {rows:,} different reports, and a list names "
                f"fewer than {1 << ROW_BITS:,}: allow fewer partitions, or leave co_ratings off"
            )
        value, square, variance = _columns(channels)
        shift = MOST_SHIFT
        while shift >= 0 and not _fit(value, square, variance, shift):
            shift -= 1
        if shift < 0:
            raise ValueError(
                f"co_ratings: a report counts as {np.abs(value).max():,.0f} stars after its noise "
                f"is corrected, and at most {MOST_VALUE:,} can be summed: allow only mechanisms "
                "of a larger epsilon, or leave co_ratings off"
            )
        units = 2.0**shift, 4.0**shift, 4.0**shift
        columns = zip((value, square, variance), units, strict=True)
        fixed = np.stack([np.floor(column * unit + 0.5) for column, unit in columns], axis=1)
        return cls(np.ascontiguousarray(fixed, np.int64), shift)

    @property
    def unit(self) -> float:
        """What a unit of a value is in stars."""
        return 2.0**-self.shift


def _columns(channels: Channels) -> tuple[Column, Column, Column]:
    """Return value, square and variance of each report (R,), in stars."""
    owner = np.repeat(np.arange(len(channels)), channels.alphabets)
    inverted, exact = channels.inverted[owner], channels.exact[owner]
    value, square = _posterior(channels)
    value = np.where(inverted, channels.value, value)
    square = np.where(inverted, channels.square, square)
    variance = np.where(inverted, value * value - square, square - value * value)
    hidden = channels.presence[owner]
    for column in (value, square, variance):
        column[hidden] = 0
    variance[exact] = 0
    return value, square, variance


def _posterior(channels: Channels) -> tuple[Column, Column]:
    """Return the posterior mean and square of each report under equal levels, in level order."""
    levels = np.repeat(channels.levels, channels.alphabets)
    total, first, second = np.zeros((3, len(levels)))
    for count in np.unique(levels).tolist():
        rows = np.flatnonzero(levels == count)
        for level, stars in enumerate(stars_of(count).tolist()):
            likely = channels.likelihood[rows, level]
            total[rows] += likely
            first[rows] += likely * stars
            second[rows] += likely * (stars * stars)
    at_all = total > 0
    zeros = np.zeros(len(levels))
    return (
        np.divide(first, total, out=zeros.copy(), where=at_all),
        np.divide(second, total, out=zeros, where=at_all),
    )


def _fit(value: Column, square: Column, variance: Column, shift: int) -> bool:
    one, two = 2.0**shift, 4.0**shift
    columns = (value, one, MOST_VALUE), (square, two, MOST_SQUARE), (variance, two, MOST_VARIANCE)
    return all(float(np.abs(column).max()) * unit <= most for column, unit, most in columns)
