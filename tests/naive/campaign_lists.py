"""Scores of a campaign's items, the obvious way: one like and one item at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

Rows = Sequence[Sequence[float]]


def public_shares(items: int) -> list[float]:
    """Return what 1 / (place + 50) gives items in their order, in sum 1."""
    found = [1 / (place + 50) for place in range(items)]
    return [each / sum(found) for each in found]


def shares(public: Sequence[float], features: Rows, likes: Sequence[float]) -> list[float]:
    """Return the shares of a person by the regression's first step."""
    width = len(features[0])
    mean = [sum(p * row[k] for p, row in zip(public, features, strict=True)) for k in range(width)]
    taste = [
        sum(x * (row[k] - mean[k]) for x, row in zip(likes, features, strict=True))
        / (sum(likes) + 20)
        for k in range(width)
    ]
    found = [
        p * math.exp(sum((row[k] - mean[k]) * taste[k] for k in range(width)))
        for p, row in zip(public, features, strict=True)
    ]
    return [each / sum(found) for each in found]


def prior_likes(directions: int) -> float:
    """Return how many likes the prior counts as beside links of so many directions."""
    return 60 / directions if directions < 15 else 4.0


def like(age: int, stars: float) -> float:
    """Return what a like counts, the newest of age 0."""
    return (0.2 + 0.8 * math.exp(-age / 5)) * (1 + 0.4 * (stars - 4.5))


def links(vectors: Rows, weights: Sequence[float], i: int, j: int) -> float:
    """Return the link from item i to item j."""
    return sum(w * a * b for w, a, b in zip(weights, vectors[i], vectors[j], strict=True))
