"""The optimal attacker on a noisy sum: the log likelihood ratio, exact for integer noise.

    y = b v + x,   x discrete Gaussian of variance V,   b = 1 with the person, 0 without
    ln P(y | b = 1) / P(y | b = 0) = (2 y.v - |v|^2) / 2V

The normalising constants are equal, since v is made of integers; so no test of (Neyman and Pearson
1933) distinguishes better. Over stages the logarithms add up, also where v depends on what earlier
stages released. Where |v|^2 / V adds up to mu^2 the statistic is N(+-mu^2 / 2, mu^2), as for the
continuous Gaussian, but for the evenness of the grid.

Of a step that takes the person with probability q: ln(1 - q + q e^ratio).
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

_NORMAL = NormalDist()


def log_ratio(seen: NDArray[np.int64], vector: NDArray[np.integer], variance: float) -> float:
    """Return the log likelihood ratio of `seen` (n,), the sum without what is known of it."""
    wide = vector.astype(np.int64)
    return int(2 * (seen * wide).sum() - (wide * wide).sum()) / (2 * variance)


def sampled_ratio(ratio: float, rate: float) -> float:
    """Return the log likelihood ratio of a step that takes the person with probability `rate`."""
    if rate == 1:
        return ratio
    if ratio > 0:
        return ratio + math.log(rate + (1 - rate) * math.exp(-ratio))
    return math.log1p(rate * math.expm1(ratio))


def theory_auc(square: float) -> float:
    """Return the AUC of the best attacker on Gaussian noise: Phi(mu / sqrt 2)."""
    return _NORMAL.cdf(math.sqrt(square / 2))


def auc(present: NDArray[np.float64], absent: NDArray[np.float64]) -> float:
    """Return how often a run with the person has the larger statistic than one without; ties half.

    (Mann and Whitney 1947.)
    """
    ordered = np.sort(absent)
    below = np.searchsorted(ordered, present, "left") + np.searchsorted(ordered, present, "right")
    return float(below.sum()) / (2 * len(present) * len(absent))
