"""Generated ratings for the tests of lists by what goes together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from research.similarity import table
from research.similarity.table import CoRatingTable


def drawn(
    random: np.random.Generator, users: int = 40, items: int = 12, share: float = 0.4
) -> NDArray[np.float64]:
    """Return (users, items) stars 1 .. 5, NaN where there is no rating."""
    stars = random.integers(1, 6, (users, items)).astype(float)
    stars[random.random((users, items)) >= share] = np.nan
    return stars


def tabled(stars: NDArray[np.float64]) -> CoRatingTable:
    """Return the table of (users, items) stars; the key of item j is 100 + j."""
    users, items = np.nonzero(~np.isnan(stars))
    keys = 100 + np.arange(stars.shape[1])
    return table.from_ratings(users, 100 + items, stars[users, items], keys)
