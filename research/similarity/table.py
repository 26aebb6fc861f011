"""What is known of each two items from the users who rated both.

    counts[j, k]      = |Phi(j, k)|              Phi(j, k): the users who rated j and k
    differences[j, k] = sum over i in Phi(j, k) of  r_ij - r_ik

Slope One (Park and Acharya 2011, equation 3) and cosine (equation 7) are functions of these sums
alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

USERS_A_BLOCK = 1_024


@dataclass(frozen=True, eq=False)
class CoRatingTable:
    """Sums over co-raters of n items, in stars of the internal scale, 1 .. 5.

    keys (n,) uint64: the items. counts (n, n): co-raters, symmetric; diagonal: the raters n_j.
    differences (n, n): the sum of r_j - r_k, antisymmetric. sums (n,): the sum of r_j over the
    raters of j.
    """

    keys: NDArray[np.uint64]
    counts: NDArray[np.float32]
    differences: NDArray[np.float32]
    sums: NDArray[np.float32]

    def __post_init__(self) -> None:
        """Refuse arrays whose shapes do not fit together."""
        size = len(self.keys)
        for name in ("counts", "differences"):
            if getattr(self, name).shape != (size, size):
                raise ValueError(
                    f"{name} of shape {getattr(self, name).shape}: must be ({size}, {size})"
                )
        if self.sums.shape != (size,):
            raise ValueError(f"sums of shape {self.sums.shape}: must be ({size},)")

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def raters(self) -> NDArray[np.float32]:
        """(n,): the raters of each item, the diagonal of `counts`."""
        return self.counts.diagonal()


def slots_of(keys: NDArray[np.uint64], items: ArrayLike) -> NDArray[np.int64]:
    """Return (m,) the place of each of `items` (m,) in `keys` (n,), -1 where it is not there."""
    wanted = np.asarray(items, np.uint64)
    if not len(keys):
        return np.full(wanted.shape, -1, np.int64)
    order = np.argsort(keys, kind="stable")
    at = order[np.searchsorted(keys[order], wanted).clip(0, len(keys) - 1)]
    return np.where(keys[at] == wanted, at, -1).astype(np.int64)


def from_ratings(
    users: ArrayLike, items: ArrayLike, ratings: ArrayLike, keys: ArrayLike
) -> CoRatingTable:
    """Return the table of the items `keys` (n,) from ratings in stars, nothing noised.

    users, items, ratings (m,): whole numbers, keys, stars. Ratings of items that are not in `keys`
    are left out; of two ratings of one user for one item the first counts. Memory: two (n, n)
    arrays in float32 and a block of users; time: two matrix products of all users.

    Raises:
        ValueError: lengths differ, an item is twice in `keys`, or a rating is not finite.

    >>> table = from_ratings([1, 1, 2], [7, 9, 9], [5, 3, 2], keys=[7, 9])
    >>> table.counts.tolist(), table.differences.tolist()
    ([[1.0, 1.0], [1.0, 2.0]], [[0.0, 2.0], [-2.0, 0.0]])
    """
    columns = np.asarray(keys, np.uint64)
    rows, slots, stars = _cells(np.asarray(users), items, np.asarray(ratings, np.float64), columns)
    size = len(columns)
    counts, sided = (np.zeros((size, size), np.float32) for _ in range(2))
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
    return CoRatingTable(columns, counts, sided - sided.T, sided.diagonal().copy())


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
