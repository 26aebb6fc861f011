"""Discrete Gaussian noise with exactly its law, at the speed of a table.

    P(x) = e^(-x^2 / 2V) / sum_n e^(-n^2 / 2V)    for every integer x  (Canonne et al. 2020, Def. 1)

A draw inverts A(m) = P(|X| <= m), with U uniform in [0, 1) and a fair sign:

    |X| = the first m with U < A(m),    t(m) = floor(2^63 A(m)),   m = 0 .. reach

A 64-bit word holds the sign (its lowest bit) and the first 63 binary digits u of U. Where u is
below or above t(m), U is below or above A(m) whatever digits follow. Where u equals a t(m), once in
about 2^63 / reach draws, further words are drawn and A is computed to as many digits until the
place is certain. So every integer has its probability, those beyond the table too, and no
floating-point number occurs.

The first digits of u select a bucket, and `guide` has the first place of each bucket: a draw ends
at it or searches onward from it. The time of that search varies with the noise, by nanoseconds,
which shows where an observer can time single draws.

Shapes: thresholds (reach + 1,) int64, ascending; guide (2^18,) int64.

The distribution function of the discrete Gaussian, to any number of bits, in integers.

    P(|X| <= m) = A(m) = (1 + 2 sum_{n=1}^{m} g^(n^2)) / (1 + 2 sum_{n>=1} g^(n^2)),  g = e^(-1/2V)

(Canonne, Kamath and Steinke 2020, Definition 1.) `cumulative` bounds every A(m) from both sides in
fixed point: each product is rounded down in one list and up in the other, and the terms that are
left out of the sum are bounded by a geometric series.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.exact.integer_tables import exp_bounds
from stream_app.privacy.randomness import RandomSource

LEAST_VARIANCE = Fraction(4)
LARGEST_VARIANCE = Fraction(2**32)  # a standard deviation of 65,536 units; 600,000 thresholds
DIGITS = 63
_GUIDE = 18
_SHIFT = np.uint64(DIGITS - _GUIDE)
_BLOCK = 1 << 14  # draws at a time, so that the buffers stay in the cache
_FIRST = 84  # digits to which the thresholds are computed before they are cut to 63


@dataclass(frozen=True, eq=False)
class GaussianTable:
    """The thresholds of one variance, 4 to 2^32 squared units."""

    variance: Fraction
    thresholds: NDArray[np.int64] = field(init=False, repr=False)
    _guide: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not LEAST_VARIANCE <= self.variance <= LARGEST_VARIANCE:
            raise ValueError(
                f"noise of variance {float(self.variance):.6g} squared units: must be "
                f"{LEAST_VARIANCE} to {LARGEST_VARIANCE}; choose another bound of the vectors"
            )
        thresholds = _thresholds(self.variance)
        buckets = np.arange(1 << _GUIDE, dtype=np.int64) << np.int64(DIGITS - _GUIDE)
        guide = np.searchsorted(thresholds, buckets)
        thresholds.flags.writeable = guide.flags.writeable = False
        object.__setattr__(self, "thresholds", thresholds)
        object.__setattr__(self, "_guide", guide)

    @property
    def reach(self) -> int:
        """The largest |x| that the first 63 digits alone can lead to."""
        return len(self.thresholds) - 1

    @property
    def digest(self) -> str:
        """The blake2b-64 of variance and thresholds."""
        text = f"{self.variance}:".encode() + self.thresholds.astype("<i8").tobytes()
        return blake2b(text, digest_size=8).hexdigest()

    def check(self) -> None:
        """Compute every threshold again, with more digits; ValueError where one is another."""
        if not np.array_equal(self.thresholds, _thresholds(self.variance, 2 * _FIRST)):
            raise ValueError(f"noise of variance {self.variance}: a threshold is not the law's")

    def sample(self, words: NDArray[np.uint64], source: RandomSource) -> NDArray[np.int64]:
        """Return one draw per word (n,); `source` gives further words where U needs them."""
        digits = (words >> np.uint64(1)).view(np.int64)
        place = self._guide.take((words >> (_SHIFT + np.uint64(1))).view(np.int64))
        threshold = self.thresholds.take(place)
        (before,) = np.nonzero(threshold < digits)
        if len(before):
            place[before] = np.searchsorted(self.thresholds, digits[before])
            threshold[before] = self.thresholds[place[before]]
        for at in np.nonzero(threshold == digits)[0]:
            place[at] = resolve(self.variance, int(digits[at]), source)
        sign = (words & np.uint64(1)).view(np.int64)
        return np.asarray((place ^ -sign) + sign)


def discrete_gaussian(variance: Fraction, size: int, source: RandomSource) -> NDArray[np.int64]:
    """Return `size` independent draws, shape (size,), in units of the grid.

    variance: 4 to 2^32 squared units, ValueError for others. The draws are a function of the words
    of `source` in their order.
    """
    table, noise = gaussian_table(variance), np.empty(size, np.int64)
    for start in range(0, size, _BLOCK):
        block = noise[start : start + _BLOCK]
        block[:] = table.sample(source.words(len(block)), source)
    return noise


@lru_cache(maxsize=8)  # of seven stages, which come again in every round
def gaussian_table(variance: Fraction) -> GaussianTable:
    """Return the table of a variance, made once: a second for the largest one."""
    return GaussianTable(variance)


def resolve(variance: Fraction, digits: int, source: RandomSource) -> int:
    """Return |X| for the U that begins with 63 `digits`, drawing as many more as it takes."""
    count = DIGITS
    while True:
        digits, count = digits << 64 | int(source.words(1)[0]), count + 64
        bounds = cumulative(variance, count)
        start, end = (each << bounds.bits - count for each in (digits, digits + 1))
        place = bisect_left(bounds.low, end)
        # Certain if all of [start, end] is between A(place - 1) and A(place).
        if place < len(bounds.low) and (place == 0 or bounds.high[place - 1] <= start):
            return place


def _thresholds(variance: Fraction, wanted: int = _FIRST) -> NDArray[np.int64]:
    """Return t(0), t(1) .. up to the first that is 2^63 - 1, the largest possible."""
    while True:
        bounds = cumulative(variance, wanted)
        shift = bounds.bits - DIGITS
        low = [each >> shift for each in bounds.low]
        # A(m) < 1, so a bound of 1 means that its digits are all ones.
        high = [min(each >> shift, (1 << DIGITS) - 1) for each in bounds.high]
        if low == high:
            reach = bisect_left(low, (1 << DIGITS) - 1)
            return np.array(low[: reach + 1], np.int64)
        wanted += 64


# The weight of n <= 2^21 is made of n ratios, and the ratio of n of n products: less than 2^43
# roundings of one unit each.
_GUARD = 72
_FURTHER = 24  # the weights that are left out of the sum matter from this digit beyond `wanted` on


@dataclass(frozen=True, eq=False)
class Cumulative:
    """low[m] / 2^bits <= A(m) <= high[m] / 2^bits for m = 0 .. reach; 1 - A(reach) < 2^-wanted."""

    bits: int
    low: list[int]
    high: list[int]


def cumulative(variance: Fraction, wanted: int) -> Cumulative:
    """Return bounds of A(0) .. A(reach), each pair less than 2^-(wanted + 20) apart.

    variance: at least 1, in squared units.
    """
    bits = wanted + _GUARD
    low, high, next_ = _weights(variance, bits, wanted)
    # Beyond the reach n0 the weights fall at least by the factor e^(-n0 / V) from one to the next.
    tail = 2 * next_ * (int(variance / len(low)) + 2)
    low, high = list(accumulate(2 * w for w in low)), list(accumulate(2 * w for w in high))
    one = 1 << bits  # the weight of 0, which the sums hold twice
    least, most = low[-1] - one, high[-1] - one + tail
    return Cumulative(
        bits,
        [(total - one << bits) // most for total in low],
        [min(one, -((one - total << bits) // least)) for total in high],
    )


def _weights(variance: Fraction, bits: int, wanted: int) -> tuple[list[int], list[int], int]:
    """Return bounds of g^(n^2) 2^bits for n = 0 .. reach, and the upper bound of the next one."""
    low_ratio, high_ratio = _base(variance, bits)
    # g^((n+1)^2) = g^(n^2) ratio(n), ratio(0) = g and ratio(n+1) = ratio(n) g^2
    low_square, high_square = low_ratio**2 >> bits, -(-(high_ratio**2) >> bits)
    low = high = 1 << bits
    least = 1 << (bits - wanted - _FURTHER)
    lows, highs = [], []
    while high >= least:
        lows.append(low)
        highs.append(high)
        low, high = low * low_ratio >> bits, -(-(high * high_ratio) >> bits)
        low_ratio = low_ratio * low_square >> bits
        high_ratio = -(-(high_ratio * high_square) >> bits)
    return lows, highs, high


def _base(variance: Fraction, bits: int) -> tuple[int, int]:
    """Return bounds of g 2^bits."""
    low, high = exp_bounds(1 / (2 * variance), bits + 8)  # of e^(1/2V)
    down = (high.denominator << bits) // high.numerator
    up = -(-(low.denominator << bits) // low.numerator)
    return down, up
