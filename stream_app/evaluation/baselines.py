"""Baselines without a user model: each item's mean of the TRUE ratings, shrunken towards the
overall mean with the weight of five ratings. Running means for prequential, those of the learned
part for one-pass.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_SHRINK = 5.0


def running_item_means(
    items: NDArray[np.uint64], ratings: NDArray[np.float64], start: float
) -> NDArray[np.float64]:
    """Return for each row the shrunken mean of its item over the rows before it, `start` before
    all.
    """
    n = np.arange(len(items), dtype=np.float64)
    overall = (np.cumsum(ratings) - ratings + _SHRINK * start) / (n + _SHRINK)
    order = np.argsort(items, kind="stable")
    of_item, sums = items[order], np.cumsum(ratings[order]) - ratings[order]
    begins = np.searchsorted(of_item, of_item)  # where each row's item starts
    before = np.empty_like(sums)
    counts = np.empty_like(sums)
    before[order] = sums - sums[begins]
    counts[order] = n - begins
    return (before + _SHRINK * overall) / (counts + _SHRINK)


def item_means(
    items: NDArray[np.uint64], ratings: NDArray[np.float64], wanted: NDArray[np.uint64]
) -> NDArray[np.float64]:
    """Return the shrunken mean of each wanted item over the given rows."""
    known, rows = np.unique(items, return_inverse=True)
    counts, sums = np.bincount(rows), np.bincount(rows, ratings)
    overall = ratings.mean()
    means = np.append((sums + _SHRINK * overall) / (counts + _SHRINK), overall)
    at = np.searchsorted(known, wanted)
    found = (at < len(known)) & (known[np.minimum(at, len(known) - 1)] == wanted)
    return np.asarray(means[np.where(found, at, len(known))])
