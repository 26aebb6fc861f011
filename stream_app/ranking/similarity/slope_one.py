"""Slope One: a rating is that of another item plus the mean difference of the two.

    s_jk = (D_jk + beta (M_j - M_k)) / (c_jk + beta)     M_j = 3 + sum_i (r_ij - 3) / (n_j + beta)
    f_j  = 1/m sum_k (r_k + s_jk)                        (Park and Acharya 2011, eqs. 5, 6)

D_jk: the sum of r_j - r_k over the c_jk co-raters; r_k: the m ratings of the user. beta damps the
difference of two items towards what their means say: on ML-1M, 80/20, RMSE with beta = 5, 10, 20,
50 is .905, .906, .907, .910; the undamped form (eq. 3) has .906.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.similarity.table import CoRatingTable

LOWEST, MIDDLE, HIGHEST = 1.0, 3.0, 5.0  # the internal scale, stars
_ROWS_AT_ONCE = 16  # of 4,096 items: 256 KiB, which stay in the cache of a core


def deviations(table: CoRatingTable, damping: float) -> NDArray[np.float32]:
    """Return s (n, n), antisymmetric, 0 where nothing is known; damping: beta.

    Off the learning thread: some 50 ms for 4,096 items. ValueError for a damping below 0 or not
    finite.
    """
    means = damped_means(table, damping)
    # A count with noise may be below 0.
    below = np.maximum(table.counts, 0) + np.float32(damping)
    above = table.differences + np.float32(damping) * (means[:, None] - means)
    found: NDArray[np.float32] = np.zeros_like(table.differences)
    np.divide(above, below, out=found, where=below > 0)
    return found


def damped_means(table: CoRatingTable, damping: float) -> NDArray[np.float32]:
    """Return M (n,) in stars: the mean of each item with `damping` ratings of 3 more."""
    below = np.maximum(table.raters, 0) + np.float32(checked_damping(damping))
    found = np.full(len(table), MIDDLE, np.float32)
    above = table.sums + np.float32(damping * MIDDLE)
    np.divide(above, below, out=found, where=below > 0)
    return found


def predict(
    deviations: NDArray[np.float32],
    slots: NDArray[np.integer],
    ratings: NDArray[np.floating],
) -> NDArray[np.float32]:
    """Return f (n,) in stars, for every item of the table, which may leave 1 .. 5; without a known
    rating 3 for all.

    slots, ratings (m,): what the user has rated; ratings of items without a slot (-1) are left out.
    """
    slots, ratings = known_ratings(slots, ratings)
    if not len(slots):
        return np.full(len(deviations), MIDDLE, np.float32)
    # Row k of s is -s_jk for every j.
    found = _row_sums(deviations, slots)
    found /= np.float32(-len(slots))
    found += ratings.mean(dtype=np.float64).astype(np.float32)
    return found


def contributions(
    deviations: NDArray[np.float32],
    slots: NDArray[np.integer],
    ratings: NDArray[np.floating],
    targets: NDArray[np.integer],
) -> NDArray[np.float32]:
    """Return r_k + s_jk - 3 (m, t): what each rating adds to the score of each of the slots
    `targets`; 0 for a rating of an item without a slot."""
    slots = np.asarray(slots, np.int64)
    stars = np.asarray(ratings, np.float32)
    rows = deviations[np.ix_(slots.clip(0), targets)]
    found: NDArray[np.float32] = (stars - np.float32(MIDDLE))[:, None] - rows
    found[slots < 0] = 0
    return found


def known_ratings(
    slots: NDArray[np.integer], ratings: NDArray[np.floating]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the slots and ratings of items that have a slot; ValueError where a rating is not
    finite, or there are not as many."""
    places, stars = np.asarray(slots, np.int64), np.asarray(ratings, np.float32)
    if len(places) != len(stars):
        raise ValueError(f"{len(places)} items with {len(stars)} ratings: must be equally many")
    if not np.isfinite(stars).all():
        raise ValueError("ratings must be finite stars")
    inside = places >= 0
    return places[inside], stars[inside]


def checked_damping(damping: float) -> float:
    """Return beta, or raise ValueError where it is below 0 or not finite."""
    if not (math.isfinite(damping) and damping >= 0):
        raise ValueError(f"damping {damping}: must be 0 or more, and finite")
    return damping


def _row_sums(rows: NDArray[np.float32], slots: NDArray[np.int64]) -> NDArray[np.float32]:
    total = np.zeros(rows.shape[1], np.float32)
    for first in range(0, len(slots), _ROWS_AT_ONCE):
        total += rows[slots[first : first + _ROWS_AT_ONCE]].sum(axis=0)
    return total
