"""The distribution function of the discrete Gaussian, to any number of bits, in integers.

    P(|X| <= m) = A(m) = (1 + 2 sum_{n=1}^{m} g^(n^2)) / (1 + 2 sum_{n>=1} g^(n^2)),  g = e^(-1/2V)

(Canonne, Kamath and Steinke 2020, Definition 1.) `cumulative` bounds every A(m) from both sides in
fixed point: each product is rounded down in one list and up in the other, and the terms that are
left out of the sum are bounded by a geometric series.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from stream_app.privacy.exact.integer_tables import exp_bounds

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
