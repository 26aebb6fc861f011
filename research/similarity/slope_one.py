"""Slope One as printed, and damped and clamped, which bounds what one person can change.

    s_jk = D_jk / c_jk             where c_jk > least, else 0         (Park and Acharya 2011, eq. 3)

    s_jk = D_jk / (c_jk + beta)    t_k = within(r_k + s_jk, 1, 5)
    f_j  = 3 + sum_k (t_k - 3) / max(m, T)

On ML-1M, 80/20, T = 20, RMSE with beta = 5, 10, 20, 50 is .910, .915, .924, .943 by the second form
and .906 by the first. The published sensitivity (Theorem 3.1) does not hold for the first form: one
co-rater more takes a pair over the threshold. The bounds hold for the second.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.similarity import slope_one as served
from stream_app.ranking.similarity.slope_one import (
    HIGHEST,
    LOWEST,
    MIDDLE,
    checked_damping,
    damped_means,
    known_ratings,
)
from stream_app.ranking.similarity.table import CoRatingTable

__all__ = ["HIGHEST", "LOWEST", "MIDDLE", "damped_means", "deviations", "predict"]

RANGE = HIGHEST - LOWEST
_ROWS_AT_ONCE = 16


def deviations(
    table: CoRatingTable,
    damping: float | None = None,
    least: int = 0,
    *,
    towards_means: bool = False,
) -> NDArray[np.float32]:
    """Return s (n, n), antisymmetric, 0 where nothing is known; see the module.

    damping: beta, or None for means over the pairs of more than `least` co-raters. towards_means:
    the form that is served. ValueError for a damping below 0 or not finite.
    """
    if towards_means and damping is not None:
        return served.deviations(table, damping)
    above, below, known = table.differences, table.counts, table.counts > max(least, 0)
    if damping is not None:
        # A count with noise may be below 0.
        below = np.maximum(table.counts, 0) + np.float32(checked_damping(damping))
        known = below > 0
    found: NDArray[np.float32] = np.zeros_like(table.differences)
    np.divide(above, below, out=found, where=known)
    return found


def predict(
    deviations: NDArray[np.float32],
    slots: NDArray[np.integer],
    ratings: NDArray[np.floating],
    least_profile: int | None = None,
) -> NDArray[np.float32]:
    """Return f (n,) in stars, for every item of the table, as the form that is served; with
    `least_profile`, which is T, of the clamped form."""
    if least_profile is None:
        return served.predict(deviations, slots, ratings)
    slots, ratings = known_ratings(slots, ratings)
    total = np.zeros(len(deviations), np.float32)
    for first in range(0, len(slots), _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        rows = (ratings[part] - np.float32(MIDDLE))[:, None] - deviations[slots[part]]
        total += rows.clip(np.float32(LOWEST - MIDDLE), np.float32(HIGHEST - MIDDLE)).sum(axis=0)
    total /= np.float32(max(len(slots), least_profile, 1))
    total += np.float32(MIDDLE)
    return total


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
