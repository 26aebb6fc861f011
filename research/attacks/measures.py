"""How much of a profile an attack finds.

cosine            |P and Q| / sqrt(|P| |Q|) of the profile P and its reconstruction Q, the best
                  c items of the ranking, c the estimated size; 0 if one of them is empty
                  (Balu 2016, eq. 3.36)
map_paper_at_k    1/k * sum over r = 1 .. k of precision(r): every rank counts, without the
                  relevance gate of the usual average precision (Balu 2016, eqs 2.5 and 3.37)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TOP = 10


@dataclass(frozen=True)
class Measured:
    """What an attack finds of several profiles: mean, 10 % and 90 % quantile of the cosine, and the
    mean of map_paper_at_10."""

    cosine: float
    low: float
    high: float
    map_at_10: float

    @classmethod
    def of_profiles(cls, cosines: Sequence[float], precisions: Sequence[float]) -> Measured:
        """Return the figures of profiles; ValueError for none."""
        if not cosines or len(cosines) != len(precisions):
            raise ValueError(f"{len(cosines)} cosines and {len(precisions)} precisions: give both")
        low, high = np.quantile(cosines, (0.1, 0.9))
        return cls(float(np.mean(cosines)), float(low), float(high), float(np.mean(precisions)))


def cosine(ranked: NDArray[np.int64], size: int, inside: NDArray[np.bool_]) -> float:
    """Return the cosine of the first `size` places of a ranking and the true profile (n,)."""
    found, true = ranked[: max(0, size)], int(inside.sum())
    if not len(found) or not true:
        return 0.0
    return float(inside[found].sum() / math.sqrt(len(found) * true))


def map_paper_at_k(ranked: NDArray[np.int64], inside: NDArray[np.bool_], k: int = TOP) -> float:
    """Return the mean of the precisions at ranks 1 .. k; ranks beyond the list are misses."""
    hits = np.zeros(k)
    hits[: len(ranked)] = inside[ranked[:k]]
    return float((np.cumsum(hits) / np.arange(1, k + 1)).mean())
