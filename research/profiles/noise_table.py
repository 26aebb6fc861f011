"""Discrete Gaussian noise from integer counts, sampled exactly.

    c(n) >= 1,  |n| <= B,  c(n) = c(-n),  sum c = 2^128,   P(n) = c(n) / 2^128

approximating P*(n) = exp(-n^2 / 2V) / sum_Z exp(-n^2 / 2V). exp(-n^2 / 2V) falls below 2^-80 just
beyond B. Two uniform 64-bit words draw one noise value by a bisection of fixed length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.exact.gaussian_calibration import exponential

TOTAL = 2**128
LEAST_VARIANCE = Fraction(4)
LARGEST_VARIANCE = Fraction(2**23)  # a standard deviation of 2896 units; its table has 61,000 rows
_BITS = 192
_ONE = 1 << _BITS
_LEAST = _ONE >> 80
_LOW = (1 << 64) - 1


@dataclass(frozen=True, eq=False)
class NoiseTable:
    """Discrete Gaussian noise of variance parameter V, 4 to 2^23, as counts that sum to 2^128."""

    variance: Fraction
    counts: tuple[int, ...] = field(init=False, repr=False)  # of 0, 1 .. B; those of -n are equal
    _ends: tuple[NDArray[np.uint64], NDArray[np.uint64]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not LEAST_VARIANCE <= self.variance <= LARGEST_VARIANCE:
            raise ValueError(
                f"noise of standard deviation {math.sqrt(self.variance):.3g} units of the grid: "
                "must be 2 to 2896"
            )
        weights = _weights(self.variance)
        whole = 2 * sum(weights) - weights[0]
        counts = [weight * TOTAL // whole for weight in weights]
        counts[0] += TOTAL - (2 * sum(counts) - counts[0])
        object.__setattr__(self, "counts", tuple(counts))
        object.__setattr__(self, "_ends", _ends(counts))

    @property
    def reach(self) -> int:
        """B, the largest noise value."""
        return len(self.counts) - 1

    @property
    def second_moment(self) -> float:
        """E[n^2] of the table, in squared units."""
        total = 2 * sum(n * n * count for n, count in enumerate(self.counts))
        return float(Fraction(total, TOTAL))

    def sample(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return one noise value per two words (2n,), shape (n,)."""
        first, second = words[0::2], words[1::2]
        upper, lower = self._ends
        place = np.zeros(len(first), np.int64)
        step = len(upper) // 2
        while step:
            at = place + (step - 1)
            high = upper.take(at)
            beyond = (first > high) | ((first == high) & (second > lower.take(at)))
            place += beyond * np.int64(step)
            step //= 2
        return place - self.reach

    def log_probabilities(self, noise: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ln P(n); -inf beyond the table."""
        known = np.array([math.log(count) for count in self.counts] + [-math.inf])
        at = np.minimum(np.abs(noise), len(self.counts))
        return np.asarray(known[at] - 128 * math.log(2))


def _weights(variance: Fraction) -> list[int]:
    """Return lower bounds of exp(-n^2 / 2V) * 2^192 for n = 0, 1 .. B."""
    down = exponential(-1 / (2 * variance))[0]
    # weight(n + 1) = weight(n) * ratio(n) with ratio(0) = g and ratio(n + 1) = ratio(n) * g^2
    ratio = (down.numerator << _BITS) // down.denominator
    square = ratio * ratio >> _BITS
    weights, weight = [], _ONE
    while weight >= _LEAST:
        weights.append(weight)
        weight, ratio = weight * ratio >> _BITS, ratio * square >> _BITS
    return weights


def _ends(counts: list[int]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the last word pair of each row, -B first, padded to a power of two."""
    rows = counts[:0:-1] + counts
    padded = 1 << (len(rows) - 1).bit_length()
    upper, lower = np.full((2, padded), _LOW, np.uint64)
    end = -1
    for row, count in enumerate(rows):
        end += count
        upper[row], lower[row] = end >> 64, end & _LOW
    return upper, lower
