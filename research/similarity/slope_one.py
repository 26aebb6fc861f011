"""Slope One: a rating is that of another item plus the mean difference of the two.

    s_jk = D_jk / c_jk             where c_jk > least, else 0         (Park and Acharya 2011, eq. 3)
    f_j  = 1/m sum_k (r_k + s_jk)                                                   (eqs. 5, 6)

damped and clamped, which bounds what one person can change:

    s_jk = D_jk / (c_jk + beta)    t_k = within(r_k + s_jk, 1, 5)
    f_j  = 3 + sum_k (t_k - 3) / max(m, T)

and damped towards what the means of two items say:

    s_jk = (D_jk + beta (M_j - M_k)) / (c_jk + beta)     M_j = 3 + sum_i (r_ij - 3) / (n_j + beta)

D_jk: the sum of r_j - r_k over the c_jk co-raters; r_k: the m ratings of the user. On ML-1M, 80/20,
RMSE with beta = 5, 10, 20, 50 is .905, .906, .907, .910 towards the means, .910, .915, .924, .943
clamped with T = 20, and .906 as printed. The published sensitivity (Theorem 3.1) does not hold for
the printed form: one co-rater more takes a pair over the threshold. The bounds hold for the damped
and clamped one.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from research.similarity.table import CoRatingTable

LOWEST, MIDDLE, HIGHEST = 1.0, 3.0, 5.0  # the internal scale, stars
RANGE = HIGHEST - LOWEST
_ROWS_AT_ONCE = 16  # of 4,096 items: 256 KiB, which stay in the cache of a core


def deviations(
    table: CoRatingTable,
    damping: float | None = None,
    least: int = 0,
    *,
    towards_means: bool = False,
) -> NDArray[np.float32]:
    """Return s (n, n), antisymmetric, 0 where nothing is known; see the module.

    damping: beta, or None for means over the pairs of more than `least` co-raters. ValueError for a
    damping below 0 or not finite.
    """
    above, below, known = table.differences, table.counts, table.counts > max(least, 0)
    if damping is not None:
        # A count with noise may be below 0.
        below = np.maximum(table.counts, 0) + np.float32(checked_damping(damping))
        known = below > 0
        if towards_means:
            means = damped_means(table, damping)
            above = above + np.float32(damping) * (means[:, None] - means)
    found: NDArray[np.float32] = np.zeros_like(table.differences)
    np.divide(above, below, out=found, where=known)
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
    least_profile: int | None = None,
) -> NDArray[np.float32]:
    """Return f (n,) in stars, for every item of the table, which may leave 1 .. 5; with
    `least_profile`, which is T, of the clamped form. Without a known rating 3 for all.

    slots, ratings (m,): what the user has rated; ratings of items without a slot (-1) are left out.
    """
    slots, ratings = known_ratings(slots, ratings)
    if not len(slots):
        return np.full(len(deviations), MIDDLE, np.float32)
    total = np.zeros(len(deviations), np.float32)
    parts = [slice(first, first + _ROWS_AT_ONCE) for first in range(0, len(slots), _ROWS_AT_ONCE)]
    if least_profile is None:
        # Row k of s is -s_jk for every j.
        for part in parts:
            total += deviations[slots[part]].sum(axis=0)
        total /= np.float32(-len(slots))
        total += ratings.mean(dtype=np.float64).astype(np.float32)
        return total
    for part in parts:
        rows = (ratings[part] - np.float32(MIDDLE))[:, None] - deviations[slots[part]]
        total += rows.clip(np.float32(LOWEST - MIDDLE), np.float32(HIGHEST - MIDDLE)).sum(axis=0)
    total /= np.float32(max(len(slots), least_profile, 1))
    total += np.float32(MIDDLE)
    return total


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


def other_profile_bound(damping: float, *, towards_means: bool = False) -> float:
    """Return the most by which any f_j moves when another user's whole profile is added or removed:
    R / (beta + 1), R = 4 stars, and 9/4 of that towards the means. Replaced by another profile: at
    most twice that. Ratings are within 1 .. 5: a debiased value has to be clamped first.

    Proof. `within` moves no farther than its argument, and f_j is a sum of m such terms divided by
    at least m: what bounds s bounds f. The profile adds at most one co-rater to a pair, with a
    difference d, |d| <= R. Over c co-raters |D| <= R c, so |s| <= R c / (c + beta), and

        |s' - s| = |d - s| / (c + 1 + beta)  <=  R (2c + beta) / ((c + beta) (c + 1 + beta)).

    This is at most R / (beta + 1), because (c + beta)(c + 1 + beta) - (2c + beta)(beta + 1)
    = c^2 - c >= 0 for whole c. In the same way, and with R/2 in place of R, M_j of n raters moves
    by h(n) R/2 at most, h(n) = (2n + beta) / ((n + beta)(n + 1 + beta)) <= 1 / (beta + 1).

    Towards the means, with P = M_j - M_k:  s' - s = (d - s + beta (P' - P)) / (c + 1 + beta), and
    |M_j - 3| <= R/2 g(n), g(n) = n / (n + beta). Let X be the mean of g(n_j) and g(n_k). Then
    |s| <= R (c + beta X) / (c + beta) = R (X + (1 - X) c / (c + beta)), and

        |d - s| + beta |P' - P|  <=  R (1 + (1 - X) c / (c + beta) + q(n_j) + q(n_k))
        2 q(n) = g(n) + beta h(n) = 1 + beta (n - 1) / ((n + beta)(n + 1 + beta))  <=  5/4,

    the last because (n + beta)^2 >= 4 n beta. So the sum is at most R (9/4 + c / (c + beta)), and
    divided by c + 1 + beta at most 9/4 R / (beta + 1): c / (c + beta) <= c / (beta + 1) for c >= 1.
    A rater of j alone moves s by beta / (c + beta) R / (2 (beta + 1)) at most.
    """
    bound = RANGE / (checked_damping(damping) + 1)
    return 2.25 * bound if towards_means else bound


def own_rating_bound(least_profile: int) -> float:
    """Return the most by which an own rating, added or removed, moves f_j of an item j that the
    user has not rated: R / (T + 1). Another value of a rating moves it by R / T at most.

    Proof. The user is no co-rater of j and anything, so of the user's terms none changes: one term
    x = t_l - 3 is added, |x| <= R / 2. With m >= T ratings f moves by |x - mean| / (m + 1) <= R /
    (m + 1), where `mean` is that of the m terms; with fewer by |x| / T <= R / (2 T) <= R / (T + 1).
    Another value moves the term t_l alone, which stays within 1 .. 5.
    """
    return RANGE / (_least(least_profile) + 1)


def own_rating_bound_of_any_item(
    damping: float, least_profile: int, *, towards_means: bool = False
) -> float:
    """Return the same for every j, rated ones included: R / (T + 1) and `other_profile_bound`.

    Proof. Of a rated j != l only the new term uses a pair that has changed. Of j = l the user
    becomes a co-rater of j and each rated k: each of the m terms moves by `other_profile_bound` at
    most, and then a term is added.
    """
    other = other_profile_bound(damping, towards_means=towards_means)
    return own_rating_bound(least_profile) + other


def _least(least_profile: int) -> int:
    if least_profile < 1:
        raise ValueError(f"least profile {least_profile}: must be 1 or more ratings")
    return least_profile
