"""What is public of *stars* so far: the item side that every stage reads and the next one improves.

b_i       bias of an item, in stars
c_i       about how many people rated it, in units of what they send; noisy
q_i       (d,) its learned factors; x_i (m,) its public features
omega_i   (c_i / median c)^-1/4, how much a residual counts
W         (d, d) makes tastes p W of unit second moment; V = W^-1

The numbers that are learned are those of float32, in float64 arrays: what is computed from a side
that was read is what is computed from the side that was written. Features are computed anew, from
what is public of the items (`campaigns/features.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.stars.shape import Shape

Floats = NDArray[np.float64]

# Far beyond what any sum of people gives, and small enough that a fold-in of 65,536 ratings keeps
# its ridge: squares of 2^26 times 2^16 leave 10 bits of a float64 below 1/2.
LARGEST = 2.0**13
LARGEST_COUNT = 2.0**33
PRECISIONS = (2.0**-40, 2.0**40)


@dataclass(frozen=True, eq=False)
class StarsSide:
    """biases, counts (n,); vectors (n, d); features (n, m); head (h,) rising places, empty before
    the counts are known; whitening, spread (d, d); precision: 1 / variance of a count; stages: how
    many of *stars* were learned."""

    biases: Floats
    counts: Floats
    vectors: Floats
    features: Floats
    head: NDArray[np.intp]
    whitening: Floats
    spread: Floats
    precision: float
    stages: int = 0

    @classmethod
    def start(cls, features: Floats, factors: int) -> StarsSide:
        """Return the side before any stage, of items with these features (n, m), m >= 0."""
        n = len(features)
        side = cls(
            np.zeros(n),
            np.zeros(n),
            np.zeros((n, factors)),
            np.asarray(features, np.float64),
            np.empty(0, np.intp),
            np.eye(factors),
            np.eye(factors),
            0.0,
        )
        return side.rounded()

    @property
    def weights(self) -> Floats:
        """The counts, none below half of their own noise (n,)."""
        floor = 0.5 / np.sqrt(np.float64(self.precision))  # NaN, not an error, below 0
        return np.asarray(np.maximum(self.counts, floor))

    @property
    def omegas(self) -> Floats:
        """What a residual of each item counts (n,), by roots alone: they are exact everywhere."""
        weights = self.weights
        middle = np.sort(weights)[len(weights) // 2]
        return np.asarray(1 / np.sqrt(np.sqrt(weights / middle)))

    def rounded(self) -> StarsSide:
        """Return the side as its bytes hold it: of float32 numbers, none beyond its limit."""
        return replace(
            self,
            biases=_rounded(self.biases),
            counts=_rounded(self.counts, LARGEST_COUNT),
            vectors=_rounded(self.vectors),
            whitening=_rounded(self.whitening),
            spread=_rounded(self.spread),
        )

    def check(self) -> None:
        """Raise ValueError for numbers that `rounded` does not leave, or places of no head."""
        small = (self.biases, self.vectors, self.features, self.whitening, self.spread)
        for array, largest in (*((each, LARGEST) for each in small), (self.counts, LARGEST_COUNT)):
            if not (np.abs(array) <= largest).all():  # NaN is not
                raise ValueError(f"a number of a public item side is not within {largest:g}")
        least, most = PRECISIONS if self.stages else (0.0, 0.0)
        if not least <= self.precision <= most:
            raise ValueError(f"precision {self.precision:g} of a public item side")
        head, items = self.head, len(self.biases)
        if len(head) and (head[0] < 0 or head[-1] >= items or (np.diff(head) <= 0).any()):
            raise ValueError(f"a head of {len(head)} items: rising places below {items}")

    def is_of(self, shape: Shape) -> bool:
        """Return whether the side has the sizes of a plan's stages."""
        sizes = len(self.head) == (shape.head if self.stages else 0)
        return sizes and self.vectors.shape == (shape.items, shape.factors)


def _rounded(array: Floats, largest: float = LARGEST) -> Floats:
    return np.clip(array, -largest, largest).astype(np.float32).astype(np.float64)
