"""The noise of a party, of which the auditor knows everything else, against its exact law.

    squares     sum x^2 / V of n draws: mean n, variance 2 n  (discrete from V >= 4: to 1e-15)
    quantiles   17 bins of about equal probability, or fewer, an odd number, of a narrow law; their
                probabilities are exact: chi-square with an even number of degrees
    residues    x modulo 5, whose probabilities are exact: chi-square, 4 degrees
    agreement   sum x x' / V of two lots that should be independent: mean 0, variance n

A noise that is too narrow, has other tails, a coarser grid, or is used twice departs from one of
these long before a likelihood ratio shows it. p-values are those of the limit laws, for the
thousands of draws of an audit; `P_VALUE` is far below what chance gives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

P_VALUE = 1e-7
BINS, RESIDUES = 17, 5
_REACH = 12  # standard deviations that the probabilities are computed over


@dataclass(eq=False)
class NoiseLaw:
    """What was seen of the noise of one variance; `add` takes lots of it."""

    variance: int
    draws: int = 0
    squares: float = 0.0
    products: float = 0.0
    paired: int = 0
    _residues: NDArray[np.int64] = field(default_factory=lambda: np.zeros(RESIDUES, np.int64))

    def __post_init__(self) -> None:
        reach = math.ceil(_REACH * math.sqrt(self.variance))
        support = np.arange(-reach, reach + 1)
        weights = np.exp(-np.square(support.astype(np.float64)) / (2 * self.variance))
        weights /= weights.sum()
        places = np.minimum((np.cumsum(weights) * BINS).astype(np.int64), BINS - 1)
        first = np.unique(places, return_index=True)[1][1:]
        self._edges = support[first[len(first) % 2 :]]
        place = np.searchsorted(self._edges, support, "right")
        self._expected_bins = np.bincount(place, weights).astype(np.float64)
        self._bins = np.zeros(len(self._expected_bins), np.int64)
        residues = np.bincount(support % RESIDUES, weights, RESIDUES)
        self._expected_residues = residues.astype(np.float64)

    def add(self, noise: NDArray[np.int64]) -> None:
        """Take a lot of draws (n,)."""
        self.draws += len(noise)
        self.squares += float(np.square(noise.astype(np.float64)).sum()) / self.variance
        places = np.searchsorted(self._edges, noise, "right")
        self._bins += np.bincount(places, minlength=len(self._bins))
        self._residues += np.bincount(noise % RESIDUES, minlength=RESIDUES)

    def pair(self, noise: NDArray[np.int64], other: NDArray[np.int64], scale: float) -> None:
        """Take two lots that should be independent; `scale` is the product of their deviations."""
        count = min(len(noise), len(other))
        both = noise[:count].astype(np.float64) * other[:count]
        self.products += float(both.sum()) / scale
        self.paired += count

    @property
    def ratio(self) -> float:
        """The variance that was seen, in units of what it should be."""
        return self.squares / self.draws if self.draws else math.nan

    def p_values(self) -> dict[str, float]:
        """Return a p-value for each test that there are draws for."""
        found = {}
        if self.draws:
            z = (self.squares - self.draws) / math.sqrt(2 * self.draws)
            found["squares"] = two_sided(z)
            found["quantiles"] = _chi_square(self._bins, self._expected_bins)
            found["residues"] = _chi_square(self._residues, self._expected_residues)
        if self.paired:
            found["agreement"] = two_sided(self.products / math.sqrt(self.paired))
        return found


def two_sided(z: float) -> float:
    """Return the probability of a normal variable beyond +-z."""
    return math.erfc(abs(z) / math.sqrt(2))


def _chi_square(counts: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float:
    """Return the p-value of counts; the degrees of freedom are even, so the tail is a sum."""
    expected = probabilities * counts.sum()
    half = float((np.square(counts - expected) / expected).sum()) / 2
    term = total = 1.0
    for order in range(1, (len(counts) - 1) // 2):
        term *= half / order
        total += term
    return math.exp(-half) * total if half < 700 else 0.0
