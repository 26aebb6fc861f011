"""*Together*: what is liked together, from one noisy sum. The device's side of the stage.

    x    (n,) 0/1, the liked items among the first n of the scope
    sent x x' / |x|^2 as its triangle (`contribution_vectors.py`): Frobenius norm 1 for any likes

The sum over people has in its eigenvectors v_a the directions of taste, and in its eigenvalues
their strengths; learned from it, `TogetherSide` is public. For a history x, which does not leave
the device, the links of an item are

    x B = sum_a w_a v_a (v_a . x),   w_a = strength_a / (strength_a + ridge)

the ridge regression of x on the factors v_a sqrt(strength_a).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.contribution_vectors import (
    ROOT_2,
    pair_places,
    to_grid,
    triangle_items,
    triangle_length,
)
from stream_app.campaigns.plan import Stage
from stream_app.campaigns.rated_items import RatedItems

FEWEST_DIRECTIONS = 3
RECENT = 5.0  # items
FLOOR = 0.2


@dataclass(frozen=True, eq=False)
class TogetherSide:
    """vectors (n, r) float32 and weights (r,) float32 of the directions above the noise.

    Fewer than three directions are popularity and noise: lists then use none of them.
    """

    vectors: NDArray[np.float32]
    weights: NDArray[np.float32]

    @property
    def is_popular(self) -> bool:
        """Whether too little was learned to rank by."""
        return len(self.weights) < FEWEST_DIRECTIONS


def size(items: int) -> int:
    """Return the integers of one contribution over `items`."""
    return triangle_length(items)


def contribution(stage: Stage, rated: RatedItems) -> NDArray[np.int32]:
    """Return what a device sends in a stage, (size,), of integer norm at most its bound; zeros
    where nothing of the first items of the scope is liked."""
    items = triangle_items(stage.size)
    vector = np.zeros(stage.size)
    liked = np.sort(rated.places[rated.liked & (rated.places < items)])
    if len(liked):
        vector[liked] = 1 / len(liked)
        vector[pair_places(liked, items)] = ROOT_2 / len(liked)
    return to_grid(vector, stage.bound)


def links(side: TogetherSide, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return x B (n,), in likes, of a history x (n,)."""
    return np.asarray(side.vectors @ (side.weights * (x @ side.vectors)))


def recency_weights(likes: int) -> NDArray[np.float64]:
    """Return what each of so many likes counts (likes,), the oldest first."""
    ages = np.arange(likes)[::-1]
    return np.asarray(FLOOR + (1 - FLOOR) * np.exp(-ages / RECENT))
