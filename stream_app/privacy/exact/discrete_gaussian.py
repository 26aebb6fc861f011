"""Discrete Gaussian noise from integer counts: the bounds hold for the counts sampled from.

    c(n) >= 1,  |n| <= B,  c(n) = c(-n),  sum c = 2^128,   P(n) = c(n) / 2^128

approximating P*(n) = exp(-n^2 / 2V) / sum_Z exp(-n^2 / 2V). exp(-n^2 / 2V) falls below 2^-80 just
beyond B. Two uniform 64-bit words draw one noise value by a bisection of fixed length: there is no
rejection step, so neither the running time nor the number of words depends on the noise.

For a vector of L coordinates the difference from the discrete Gaussian is part of the bound. With
|P(n) / P*(n) - 1| <= eta for every |n| <= B and tail = P(|n| = B): on the event that no coordinate
reaches the edge, every move by +-1 stays within the table, so for every set S of outputs

    P(S) <= ((1 + eta) / (1 - eta))^L e^epsilon P'(S) + (1 + eta)^L delta(epsilon) + L tail

`NoiseTable` checks the counts in rational arithmetic and raises ValueError if eta or tail exceeds
`uneven` or `EDGE`, the bounds that `table_delta` uses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.exact.certificates import Certificate
from stream_app.privacy.exact.gaussian_calibration import (
    LEAST_VARIANCE,
    exponential,
    lattice_delta,
    root,
)

TOTAL = 2**128
EDGE = Fraction(1, 2**68)
LARGEST_VARIANCE = Fraction(2**23)  # a standard deviation of 2896 units; its table has 61,000 rows
_BITS = 192
_ONE = 1 << _BITS
_LEAST = _ONE >> 80
_LOW = (1 << 64) - 1


def uneven(variance: Fraction) -> Fraction:
    """Return the largest eta that a table of this variance may have."""
    return Fraction(3 * math.ceil(root(variance)[1]), 2**46)


def table_delta(epsilon: Fraction, variance: Fraction, length: int) -> Fraction | None:
    """Return an upper bound of delta for `length` draws of the table, each moving by +-1.

    None if the bound on the table's rounding error alone uses up epsilon.
    """
    eta = uneven(variance)
    left = epsilon - length * 2 * eta / (1 - eta)  # ln((1 + eta) / (1 - eta)) <= 2 eta / (1 - eta)
    if left <= 0:
        return None
    return lattice_delta(left, variance, length) * exponential(length * eta)[1] + length * EDGE


@dataclass(frozen=True)
class DeltaCertificate(Certificate):
    """Proof of an (epsilon, delta): `delta_bound` <= delta at exactly this epsilon.

    `slack` is 0 because `delta_bound` is computed at epsilon itself. `outputs`: number of distinct
    noise values of a coordinate.
    """

    delta: Fraction = Fraction(0)
    delta_bound: Fraction = Fraction(0)
    variance: Fraction = Fraction(0)


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
        low = weights[0]
        whole = 2 * sum(low) - low[0]
        counts = [weight * TOTAL // whole for weight in low]
        counts[0] += TOTAL - (2 * sum(counts) - counts[0])
        object.__setattr__(self, "counts", tuple(counts))
        object.__setattr__(self, "_ends", _ends(counts))
        self._compare(*weights)

    @property
    def reach(self) -> int:
        """B, the largest noise value."""
        return len(self.counts) - 1

    @property
    def rows(self) -> int:
        """Number of distinct noise values, 2 B + 1."""
        return 2 * len(self.counts) - 1

    @property
    def second_moment(self) -> float:
        """E[n^2] of the table, in squared units."""
        total = 2 * sum(n * n * count for n, count in enumerate(self.counts))
        return float(Fraction(total, TOTAL))

    @property
    def digest(self) -> str:
        """The blake2b-64 of the counts of 0, 1 .. B, as decimal text."""
        text = ",".join(map(str, self.counts))
        return blake2b(text.encode(), digest_size=8).hexdigest()

    def check(self) -> None:
        """Compare every count with the discrete Gaussian; ValueError if the bounds do not hold."""
        self._compare(*_weights(self.variance))

    def _compare(self, low: list[int], high: list[int], next_: int) -> None:
        # Beyond B the weights fall like a geometric series of ratio exp(-B / V) or less, B > 10 s.
        most = 2 * sum(high) - low[0] + 2 * next_ * (math.isqrt(int(self.variance)) + 2)
        least, eta = 2 * sum(low) - low[0], uneven(self.variance)
        above, below = 1 + eta, 1 - eta
        # count / 2^128 against weight / whole: both sides of the quotient are rounded outwards.
        top, top_of = most * above.denominator, above.numerator * TOTAL
        bottom, bottom_of = least * below.denominator, below.numerator * TOTAL
        for count, small, large in zip(self.counts, low, high, strict=True):
            if count * top > top_of * small or count * bottom < bottom_of * large:
                raise ValueError(f"noise table of variance {self.variance}: a count is too far off")
        if 2 * self.counts[-1] > EDGE * TOTAL or 2 * sum(self.counts) - self.counts[0] != TOTAL:
            raise ValueError(f"noise table of variance {self.variance}: its edge is too heavy")

    def sample(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return one noise value per two words (2n,), shape (n,), each in the same steps."""
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


@lru_cache(maxsize=1)
def _weights(variance: Fraction) -> tuple[list[int], list[int], int]:
    """Return bounds of exp(-n^2 / 2V) * 2^192 for n = 0, 1 .. B, and the upper bound at B + 1.

    Cached, because building a table and checking it use the same bounds. Callers must not modify
    the lists.
    """
    down, up = exponential(-1 / (2 * variance))
    # weight(n + 1) = weight(n) * ratio(n) with ratio(0) = g and ratio(n + 1) = ratio(n) * g^2
    low_ratio = (down.numerator << _BITS) // down.denominator
    high_ratio = -((-up.numerator << _BITS) // up.denominator)
    low_square = low_ratio * low_ratio >> _BITS
    high_square = -(-(high_ratio * high_ratio) >> _BITS)
    lows, highs, low, high = [], [], _ONE, _ONE
    while low >= _LEAST:
        lows.append(low)
        highs.append(high)
        low, high = low * low_ratio >> _BITS, -(-(high * high_ratio) >> _BITS)
        low_ratio, high_ratio = (
            low_ratio * low_square >> _BITS,
            -(-(high_ratio * high_square) >> _BITS),
        )
    return lows, highs, high


def _ends(counts: list[int]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the last word pair of each row, -B first, padded to a power of two."""
    rows = counts[:0:-1] + counts
    padded = 1 << (len(rows) - 1).bit_length()
    upper, lower = np.full((2, padded), _LOW, np.uint64)
    end = -1
    for row, count in enumerate(rows):
        end += count
        upper[row], lower[row] = end >> 64, end & _LOW
    upper.flags.writeable = lower.flags.writeable = False
    return upper, lower
