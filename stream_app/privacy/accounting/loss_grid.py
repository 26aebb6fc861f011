"""A privacy loss on a grid of spacing h, rounded so that it dominates the exact one.

An output (p, q) with loss ln(p / q) between the grid points a h and b h = (a + 1) h is split,

    p = p_a + p_b,   q = p_a e^(-a h) + p_b e^(-b h)      p_b = (p - q e^(a h)) / (1 - e^(-h))

into one output at each point. Joining the two again is post-processing, so the split pair dominates
the exact one, and no pair on the grid dominates it more tightly: these are the "connected dots" of
Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022. p_b is computed from rational bounds of the
exponentials and rounded up; mass that moves from a to b can only raise delta. Masses are float64
upper bounds of exact rationals. A loss on a grid point stays there: the tables of randomized
response lose nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.accounting.dominating_pair import DominatingPair, log_ratio
from stream_app.privacy.exact.gaussian_calibration import exponential

UNIT = 2.0**-53  # the relative error of one rounding of float64


@dataclass(frozen=True, eq=False)
class GridLoss:
    """Upper bounds of the probabilities (m,) of the losses places * h, and of an infinite loss."""

    places: NDArray[np.int64]
    masses: NDArray[np.float64]
    infinite: float

    def log_moment(self, tilt: float) -> float:
        """Return ln sum masses e^(tilt * places), to a relative error of some roundings."""
        exponents = np.log(self.masses) + tilt * self.places
        top = float(exponents.max())
        return top + math.log(float(np.exp(exponents - top).sum()))

    def tilted(self, tilt: float) -> tuple[NDArray[np.float64], float, float]:
        """Return masses e^(tilt * places - k) (m,), the constant k, and their relative error."""
        scale = self.log_moment(tilt)
        logs = np.log(self.masses)
        exponents = logs + tilt * self.places - scale
        largest = float((np.abs(logs) + np.abs(tilt * self.places)).max()) + abs(scale)
        return np.exp(exponents), scale, 8 * UNIT * (1 + largest)


def on_grid(pair: DominatingPair, spacing: Fraction) -> GridLoss:
    """Return the loss of a pair on the grid of multiples of `spacing`."""
    share = 1 - exponential(-spacing)[1]  # at most 1 - e^(-h)
    found: dict[int, Fraction] = {}
    infinite = 0
    for p, q in pair.atoms:
        if not q:
            infinite += p
        elif p:
            place, power = _place(Fraction(p, q), spacing)
            upper = min(Fraction(p), max(Fraction(0), (p - q * power) / share))
            found[place] = found.get(place, Fraction(0)) + p - upper
            found[place + 1] = found.get(place + 1, Fraction(0)) + upper
    masses = {place: mass / pair.total for place, mass in sorted(found.items()) if mass}
    return GridLoss(
        np.array(list(masses), np.int64),
        np.array([round_up(mass) for mass in masses.values()], np.float64),
        round_up(Fraction(infinite, pair.total)),
    )


def split(
    losses: NDArray[np.float64], masses: NDArray[np.float64], spacing: Fraction, infinite: float
) -> GridLoss:
    """Return upper bounds (m,) of masses and their losses on the grid, in floating point.

    The share 1e-12 that is added to p_b, and the factor of all, are above every rounding.
    """
    step = float(spacing)
    places = np.floor(losses / step)
    shares = np.expm1(places * step - losses) / math.expm1(-step)
    upper = np.clip(shares + 1e-12, 0.0, 1.0)
    first = int(places.min())
    at = (places - first).astype(np.int64)
    kept_below = masses * (1 - np.clip(shares, 0.0, 1.0))
    sums = np.bincount(at, kept_below, int(at.max()) + 2).astype(np.float64)
    sums[1:] += np.bincount(at, masses * upper, len(sums) - 1)
    kept = np.flatnonzero(sums)
    return GridLoss(kept + first, sums[kept] * (1 + 1e-9), infinite)


def _place(ratio: Fraction, spacing: Fraction) -> tuple[int, Fraction]:
    """Return a with ratio <= e^((a + 1) h), the least that is proved, and a bound below e^(a h)."""
    place = math.floor(log_ratio(ratio.numerator, ratio.denominator) / spacing)
    while ratio < exponential(place * spacing)[1]:
        place -= 1
    while ratio > exponential((place + 1) * spacing)[0]:
        place += 1
    return place, exponential(place * spacing)[0]


def round_up(x: Fraction) -> float:
    """Return the least float64 that is at least x >= 0, or the next one."""
    return math.nextafter(float(x), math.inf) if x else 0.0
