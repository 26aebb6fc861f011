"""The law of a sum of independent losses, by one Fourier transform with every error bounded.

Losses L_i on a grid of spacing h have masses m_i; with a tilt s (Esscher 1932) the masses

    m_i(a) e^(s a - k_i)        k_i = ln sum_a m_i(a) e^(s a)

sum to 1, and the n-fold convolution of the tilted masses is e^(s A - sum k) times that of the m_i.
`s` is chosen so that the tilted law has its mean near the epsilon in question. Relative errors then
stay relative also where delta is 10^-12: the transform's error is as small against the tilted law
there as against its peak. (Koskela, Jalkoe, Prediger and Honkela 2021 bound an untilted transform;
its rounding, about 10^-15, is absolute and would hide such a delta.)

With u = 2^-53 and N = 2^m points, each entry of a transform of masses of total 1 errs by at most
c = 16 u m: every path through the butterflies has weight 1, and each of m stages errs by at most
(sqrt 2 + 5) u (Higham 2002, section 24.1). An n-th power by repeated multiplication errs by 4 n u
relative to itself (Brent, Percival and Zimmermann 2007). With B = |F| + c for the computed F,

    |error at any point|  <=  1/N sum_j prod_i B_ij^n_i (sum_i n_i (c / B_ij + 4u) + c)

is added to every entry. Mass beyond the window wraps around, which can only raise an entry. The
mass above it is bounded by Chernoff and added to delta, as is the mass of infinite losses; below
the window nothing is known, so an epsilon there has the bound 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.accounting.loss_grid import UNIT, GridLoss

Parts = Sequence[tuple[GridLoss, int]]
LONGEST = 2**21  # points of a transform
_NEGLIGIBLE = 42.0  # e^-42 is 6e-19
_LEAST = 1e-280  # above all underflow
_HUGE = 600.0  # the law is at least its rounding error: such a place proves nothing


@dataclass(frozen=True, eq=False)
class TiltedSum:
    """Upper bounds of the tilted law at the places low, low + 1 .. of the grid, and what is beyond.

    `beyond` bounds the probability above the window and that of an infinite loss; `slack` is the
    relative error of an entry; `whole`: no mass lies below the window.
    """

    spacing: float  # rounded up
    tilt: float
    low: int
    law: NDArray[np.float64]
    scale: float
    beyond: float
    slack: float
    whole: bool

    def delta(self, epsilon: float) -> float:
        """Return an upper bound of delta at epsilon >= 0."""
        first = math.floor(epsilon / self.spacing * (1 - 8 * UNIT))
        if first < self.low and not self.whole:
            return 1.0
        places = np.arange(max(first, self.low), self.low + len(self.law), dtype=np.float64)
        above = places * (self.spacing * (1 + 4 * UNIT)) - epsilon
        zeros = int(above.searchsorted(0.0, "right"))  # of the first place, mostly
        places, above = places[zeros:], above[zeros:]
        if not len(places):
            return min(1.0, self.beyond)
        exponents = self.scale - self.tilt * places
        if exponents[0] > _HUGE:
            return 1.0
        untilted = self.law[-len(places) :] * np.exp(exponents)
        largest = abs(self.scale) + abs(self.tilt) * float(np.abs(places[[0, -1]]).max())
        rounding = self.slack + 8 * UNIT * (8 + largest) + len(places) * UNIT
        total = float((untilted * -np.expm1(-above)).sum())
        return min(1.0, total * math.exp(rounding) * (1 + 1e-15) + self.beyond)


def tilted_sum(parts: Parts, spacing: Fraction, tilt: float) -> TiltedSum:
    """Return the tilted law of the sum of `count` copies of each loss; tilt > 0, per grid point."""
    tilted = [(*loss.tilted(tilt), loss, count) for loss, count in parts]
    scale = sum(count * k for _, k, _, _, count in tilted)
    slack = sum(count * error for _, _, error, _, count in tilted)
    low, high = _window([(loss.places, masses, n) for masses, _, _, loss, n in tilted], parts, tilt)
    size = 1 << max(3, (high - low).bit_length())
    values, error = _convolved([(loss.places, masses, n) for masses, _, _, loss, n in tilted], size)
    law = np.maximum(values[(low + np.arange(size)) % size], 0.0) + error
    finite = sum(n * math.log1p(-min(loss.infinite, 1 - UNIT)) for loss, n in parts)
    beyond = _above(parts, low + size, tilt) - math.expm1(finite)
    rounding = 8 * UNIT * (len(parts) + 2) * (1 + sum(abs(n * k) for _, k, _, _, n in tilted))
    least = sum(n * int(loss.places.min()) for loss, n in parts)
    return TiltedSum(
        math.nextafter(float(spacing), math.inf),
        tilt,
        low,
        law,
        scale,
        beyond * (1 + 1e-9),
        slack * (1 + 1e-9) + rounding,
        low <= least,
    )


Tilted = Sequence[tuple[NDArray[np.int64], NDArray[np.float64], int]]


def _window(tilted: Tilted, parts: Parts, tilt: float) -> tuple[int, int]:
    """Return the first and last place that matter: the support, or all but e^-42 of the law."""
    means = [float((places * masses).sum()) for places, masses, _ in tilted]
    centre = sum(n * mean for mean, (_, _, n) in zip(means, tilted, strict=True))
    square = sum(
        n * float(((places - mean) ** 2 * masses).sum())
        for mean, (places, masses, n) in zip(means, tilted, strict=True)
    )
    least = sum(n * int(places.min()) for places, _, n in tilted)
    most = sum(n * int(places.max()) for places, _, n in tilted)
    reach = 9 * math.sqrt(square) + 4
    low, high = centre - reach, centre + reach
    base = _log_moment(parts, tilt) - _NEGLIGIBLE
    while high < most and _log_tail(parts, high, tilt, 1 / math.sqrt(square + 1)) > base:
        high += (high - centre) / 6
    while low > least and _log_tail(parts, low, tilt, -1 / math.sqrt(square + 1)) > base:
        low -= (centre - low) / 6
    first, last = max(least, math.floor(low)), min(most, math.ceil(high))
    return first, min(last, first + LONGEST - 1)


def _log_moment(parts: Parts, tilt: float) -> float:
    return sum(n * loss.log_moment(tilt) for loss, n in parts)


def _log_tail(parts: Parts, place: float, tilt: float, step: float) -> float:
    """Return a Chernoff bound of ln P(beyond `place`) + sum k of the tilted law.

    `step` is above 0 for the places above, below 0 for those below.
    """
    steps = (3 * step, 6 * step, 9 * step)
    return min(_log_moment(parts, tilt + each) - each * place for each in steps)


def _above(parts: Parts, place: int, tilt: float) -> float:
    """Return an upper bound of the untilted probability of the places from `place` on."""
    if place > sum(n * int(loss.places.max()) for loss, n in parts):
        return 0.0
    steps = [tilt * factor for factor in (1.0, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0)]
    best = min(_log_moment(parts, s) - s * place for s in steps)
    largest = max(float(np.abs(loss.places).max()) for loss, _ in parts) * steps[-1]
    rounding = 32 * UNIT * sum(n for _, n in parts) * (64 + largest)
    return min(1.0, math.exp(min(0.0, best + rounding + abs(best) * 16 * UNIT)) + _LEAST)


def _convolved(tilted: Tilted, size: int) -> tuple[NDArray[np.float64], float]:
    """Return the convolution of all masses modulo `size`, and the bound on its entries' error."""
    stage = 16 * UNIT * size.bit_length()
    product = np.ones(size // 2 + 1, np.complex128)
    bound, errors = np.ones(size // 2 + 1), np.full(size // 2 + 1, stage)
    for places, masses, count in tilted:
        wrapped = np.zeros(size)
        np.add.at(wrapped, places % size, masses)
        turns = 2 + int(places.max() - places.min()) // size  # terms of one entry
        transform = np.fft.rfft(wrapped)
        most = np.abs(transform) * (1 + 4 * UNIT) + stage + turns * UNIT
        errors += count * ((stage + turns * UNIT) / most + 4 * UNIT) + 4 * UNIT
        bound *= np.exp(count * np.log(most))
        product *= _power(transform, count)
    values = np.fft.irfft(product, size)
    return values, 1.01 * 2 * float((bound * errors).sum()) / size + _LEAST


def _power(base: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    result, square = np.ones_like(base), base
    while count:
        if count & 1:
            result = result * square
        count >>= 1
        square = square * square if count else square
    return result
