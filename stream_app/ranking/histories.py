"""A user's history over the head items, and how much each item of it counts.

    weight = FLOOR + (1 - FLOOR) exp(-age / MEMORY)        age in items, 0 for the newest
    follow = exp(-age / MEMORY)                            for what tends to follow, liked or not

Recent items say more about what a user wants next. The order is known where the history is: on the
device it never leaves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FLOOR = 0.2
MEMORY = 5.0  # items


class History(NamedTuple):
    """Items of one user: slots (m,) of the item side; weights (m,), 1 for a certain like; ages (m,)
    in items, or None where the order is unknown."""

    slots: NDArray[np.intp]
    weights: NDArray[np.float32]
    ages: NDArray[np.float32] | None = None

    def recency_weights(self) -> NDArray[np.float32]:
        """Return the weight of each item (m,), newer items counting more where the order is
        known."""
        if self.ages is None:
            return self.weights
        decay = FLOOR + (1 - FLOOR) * np.exp(-self.ages / np.float32(MEMORY))
        weights: NDArray[np.float32] = (self.weights * decay).astype(np.float32)
        return weights

    def following_weights(self) -> NDArray[np.float32]:
        """Return how much what tends to follow each item counts (m,); nothing where the order is
        unknown."""
        if self.ages is None:
            return np.zeros(len(self.slots), np.float32)
        weights: NDArray[np.float32] = np.exp(-self.ages / np.float32(MEMORY)).astype(np.float32)
        return weights
