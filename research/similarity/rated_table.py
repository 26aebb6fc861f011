"""The table of two items from a whole file of ratings, nothing noised."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_app.ranking.similarity.table import CoRatingTable, slots_of

USERS_A_BLOCK = 1_024


def from_ratings(
    users: ArrayLike, items: ArrayLike, ratings: ArrayLike, keys: ArrayLike, version: int = 0
) -> CoRatingTable:
    """Return the table of the items `keys` (n,) from ratings in stars, nothing noised.

    users, items, ratings (m,): whole numbers, keys, stars. Ratings of items that are not in `keys`
    are left out; of two ratings of one user for one item the first counts. Memory: three (n, n)
    arrays in float32 and a block of users; time: three matrix products of all users.

    Raises:
        ValueError: lengths differ, an item is twice in `keys`, or a rating is not finite.

    >>> table = from_ratings([1, 1, 2], [7, 9, 9], [5, 3, 2], keys=[7, 9])
    >>> table.counts.tolist(), table.differences.tolist()
    ([[1.0, 1.0], [1.0, 2.0]], [[0.0, 2.0], [-2.0, 0.0]])
    """
    columns = np.asarray(keys, np.uint64)
    rows, slots, stars = _cells(np.asarray(users), items, np.asarray(ratings, np.float64), columns)
    size = len(columns)
    counts, sided, products = (np.zeros((size, size), np.float32) for _ in range(3))
    starts = range(0, int(rows.max(initial=-1)) + 1, USERS_A_BLOCK)
    for start in starts:
        first, last = np.searchsorted(rows, [start, start + USERS_A_BLOCK])
        cells = (rows[first:last] - start, slots[first:last])
        present = np.zeros((USERS_A_BLOCK, size), np.float32)
        values = np.zeros((USERS_A_BLOCK, size), np.float32)
        present[cells] = 1
        values[cells] = stars[first:last]
        counts += present.T @ present
        sided += values.T @ present  # [j, k]: the sum of r_j over the co-raters of j and k
        products += values.T @ values
    return CoRatingTable(
        version=version,
        keys=columns,
        counts=counts,
        differences=sided - sided.T,
        products=products,
        sums=sided.diagonal().copy(),
        variance=np.zeros(size, np.float32),
    )


def _cells(
    users: NDArray[np.generic],
    items: ArrayLike,
    ratings: NDArray[np.float64],
    keys: NDArray[np.uint64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return row of the user, slot of the item and stars of each cell that counts, by row."""
    if len(np.unique(keys)) != len(keys):
        raise ValueError(f"keys of {len(keys)} items: each item may be there once")
    slots = slots_of(keys, items)
    if not len(users) == len(slots) == len(ratings):
        raise ValueError(
            f"{len(users)} users, {len(slots)} items, {len(ratings)} ratings: must be equally many"
        )
    if not np.isfinite(ratings).all():
        raise ValueError("ratings must be finite stars")
    inside = slots >= 0
    rows = np.unique(users[inside], return_inverse=True)[1].reshape(-1).astype(np.int64)
    _, first = np.unique(rows * max(len(keys), 1) + slots[inside], return_index=True)
    return rows[first], slots[inside][first], ratings[inside][first]
