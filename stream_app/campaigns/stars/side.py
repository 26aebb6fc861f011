"""What is public of *stars* so far: the item side that every stage reads and the next one improves.

b_i       bias of an item, in stars
c_i       about how many people rated it, in units of what they send; noisy
q_i       (d,) its learned factors; x_i (m,) its public features
omega_i   (c_i / median c)^-1/4, how much a residual counts
W         (d, d) makes tastes p W of unit second moment; V = W^-1
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StarsSide:
    """biases, counts (n,); vectors (n, d); features (n, m); head (h,) rising places, empty before
    the counts are known; whitening, spread (d, d); precision: 1 / variance of a count."""

    biases: Floats
    counts: Floats
    vectors: Floats
    features: Floats
    head: NDArray[np.intp]
    whitening: Floats
    spread: Floats
    precision: float

    @classmethod
    def start(cls, features: Floats, factors: int) -> StarsSide:
        """Return the side before any stage, of items with these features (n, m), m >= 0."""
        n = len(features)
        return cls(
            np.zeros(n),
            np.zeros(n),
            np.zeros((n, factors)),
            np.asarray(features, np.float64),
            np.empty(0, np.intp),
            np.eye(factors),
            np.eye(factors),
            0.0,
        )

    @property
    def weights(self) -> Floats:
        """The counts, none below half of their own noise (n,)."""
        return np.maximum(self.counts, 0.5 / math.sqrt(self.precision))

    @property
    def omegas(self) -> Floats:
        """What a residual of each item counts (n,), by roots alone: they are exact everywhere."""
        weights = self.weights
        middle = np.sort(weights)[len(weights) // 2]
        return np.asarray(1 / np.sqrt(np.sqrt(weights / middle)))
