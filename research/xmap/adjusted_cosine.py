"""How alike two items are by who rated both: adjusted cosine, and a damped form whose change by one
person is bounded.

    c_xi    = r_xi - (the mean rating of user x)              0 where x has not rated i
    plain   = <c_i, c_j> / (|c_i| |c_j|)                      (Guerraoui et al. 2017, section 4.1)
    damped  = <b_i, b_j> / sqrt((|b_i|^2 + beta) (|b_j|^2 + beta)),   b = c clipped to [-B, B]

Norms are over all raters of an item. One person changes the plain form by anything up to 2. The
damped one changes by at most 2 B^2 / (beta + B^2) when all ratings of a person come or go. Let p,
a, b be the product and the squared norms without the person, whose clipped values are x and y, and
q_a = (a + beta) / (a + x^2 + beta), q_b alike. Then

    |s' - s| <= |x y| / sqrt((a + x^2 + beta) (b + y^2 + beta))
                + |p| / sqrt((a + beta) (b + beta)) (1 - sqrt(q_a q_b))

The first part is at most B^2 / (B^2 + beta). In the second |p| <= sqrt(a b), and 1 - sqrt(q_a q_b)
is at most the larger of 1 - q_a = x^2 / (a + x^2 + beta) and 1 - q_b: B^2 / (B^2 + beta) again. A
person's mean is of that person's ratings alone, so it moves no other row. Replacing a person costs
twice the bound.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class RatedCells(NamedTuple):
    """Ratings of n items as tables (u, n): centred stars, 0 without a rating; which are present."""

    centred: NDArray[np.float64]
    present: NDArray[np.bool_]
    stars: NDArray[np.float64]

    def take(self, items: NDArray[np.int64]) -> RatedCells:
        """Return the columns of some items; the centres stay those of all of them."""
        return RatedCells(self.centred[:, items], self.present[:, items], self.stars[:, items])


def rated_cells(
    users: ArrayLike, items: ArrayLike, stars: ArrayLike, people: int, size: int
) -> RatedCells:
    """Return the tables of ratings in columns (r,): users 0 .. people - 1, items 0 .. size - 1.

    Of two ratings of a cell the first counts. A user with one rating has the centre there, and so
    says nothing about which items are alike. Memory: 17 bytes a cell.

    Raises:
        ValueError: lengths differ, a number is out of range, or a rating is not finite.
    """
    by_user, by_item = np.asarray(users, np.int64), np.asarray(items, np.int64)
    values = np.asarray(stars, np.float64)
    if not len(by_user) == len(by_item) == len(values):
        raise ValueError(
            f"{len(by_user)} users, {len(by_item)} items, {len(values)} ratings: must be equally "
            "many"
        )
    for name, found, end in (("user", by_user, people), ("item", by_item, size)):
        if len(found) and not 0 <= found.min() <= found.max() < end:
            raise ValueError(f"{name} numbers must be 0 to {end - 1}")
    if not np.isfinite(values).all():
        raise ValueError("ratings must be finite stars")
    table, present = np.zeros((people, size)), np.zeros((people, size), bool)
    _, first = np.unique(by_user * max(size, 1) + by_item, return_index=True)
    table[by_user[first], by_item[first]] = values[first]
    present[by_user[first], by_item[first]] = True
    means = table.sum(axis=1) / np.maximum(present.sum(axis=1), 1)
    return RatedCells(np.where(present, table - means[:, None], 0), present, table)


def adjusted_cosine(rows: RatedCells, columns: RatedCells) -> NDArray[np.float64]:
    """Return the plain form (n, m), -1 .. 1, of two sets of items; 0 where a norm is 0."""
    return _cosine(rows.centred, columns.centred, 0.0)


def damped_cosine(
    rows: RatedCells, columns: RatedCells, beta: float, clip: float
) -> NDArray[np.float64]:
    """Return the damped form (n, m), -1 .. 1; one person moves each entry by at most
    `sensitivity(beta, clip)`."""
    sensitivity(beta, clip)
    return _cosine(rows.centred.clip(-clip, clip), columns.centred.clip(-clip, clip), beta)


def sensitivity(beta: float, clip: float) -> float:
    """Return 2 B^2 / (beta + B^2), a proved bound of the change of any damped similarity when all
    ratings of one person come or go; it is at most 2, the width of the range.

    >>> round(sensitivity(100, 2), 3)
    0.077
    """
    if not (math.isfinite(beta) and beta >= 0):
        raise ValueError(f"damping {beta}: must be 0 or more, and finite")
    if not (math.isfinite(clip) and clip > 0):
        raise ValueError(f"clip {clip} of centred ratings: must be above 0 stars, and finite")
    return 2 * clip**2 / (beta + clip**2)


def significance(
    rows: RatedCells, columns: RatedCells
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (n, m) each: S, how many people agree on both items, and F = S / (raters of either).

    Two ratings agree where both are at least the mean of their item, or both below (Guerraoui et
    al. 2017, Definition 2). F is 0 where no user rated either.
    """
    (high, low), (high_too, low_too) = _sides(rows), _sides(columns)
    agree = high.T @ high_too + low.T @ low_too
    together = rows.present.astype(np.float32).T @ columns.present.astype(np.float32)
    either = rows.present.sum(axis=0)[:, None] + columns.present.sum(axis=0)[None, :] - together
    share = np.divide(agree, either, out=np.zeros(agree.shape), where=either > 0)
    return agree.astype(np.float64), share


def item_means(cells: RatedCells, middle: float) -> NDArray[np.float64]:
    """Return (n,) the mean rating of each item, `middle` where it has none."""
    counts = cells.present.sum(axis=0)
    return np.where(counts > 0, cells.stars.sum(axis=0) / np.maximum(counts, 1), middle)


def _sides(cells: RatedCells) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    high = cells.present & (cells.stars >= item_means(cells, 0.0) - 1e-9)
    return high.astype(np.float32), (cells.present & ~high).astype(np.float32)


def _cosine(
    rows: NDArray[np.float64], columns: NDArray[np.float64], beta: float
) -> NDArray[np.float64]:
    norms = [np.sqrt((table * table).sum(axis=0) + beta) for table in (rows, columns)]
    scale = np.multiply.outer(*norms)
    found = np.divide(rows.T @ columns, scale, out=np.zeros(scale.shape), where=scale > 0)
    return np.asarray(found.clip(-1, 1))
