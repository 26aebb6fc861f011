"""Cosine between items, by who rated them, whatever they rated.

    s_jk = c_jk / sqrt(n_j n_k)                           (Park and Acharya 2011, eq. 7)
    f_j  = 1/m sum_k s_kj                                 (eq. 8)

and damped, which bounds what one person can change and keeps pairs of rare items low:

    s_jk = c_jk / sqrt((n_j + beta) (n_k + beta))
    f_j  = sum_k s_kj / max(m, T)

c_jk: co-raters of j and k; n_j: raters of j; k: the m items that the user has rated. s_jj = 0: an
item says nothing about itself.

The published sensitivity 2 / T (Theorem 3.2) does not hold for the plain form, in which a first
rater takes s from 0 to .7; the bounds below hold for the damped one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from research.similarity.slope_one import checked_damping
from research.similarity.table import CoRatingTable


def similarities(table: CoRatingTable, damping: float | None = None) -> NDArray[np.float32]:
    """Return s (n, n), symmetric, within 0 .. 1; 0 on the diagonal and for items without raters.
    Of counts with noise it may leave 0 .. 1.

    damping: beta, or None for plain cosine.

    Raises:
        ValueError: damping below 0, or not finite.
    """
    # A count with noise may be below 0.
    raters = np.maximum(table.raters, 0)
    norms = np.sqrt(raters + np.float32(checked_damping(damping or 0.0)))
    inverse = np.zeros_like(norms)
    np.divide(1, norms, out=inverse, where=norms > 0)
    found: NDArray[np.float32] = table.counts * (inverse[:, None] * inverse)
    np.fill_diagonal(found, 0)
    return found


def scores(
    similarities: NDArray[np.float32], slots: NDArray[np.integer], least_profile: int = 1
) -> NDArray[np.float32]:
    """Return f (n,) of every item of the table, within 0 .. 1; 0 for all without a history.

    slots (m,): the items of the history; those without a slot (-1) are left out. least_profile: T.
    """
    places = np.asarray(slots, np.int64)
    rows = similarities[places[places >= 0]]
    found: NDArray[np.float32] = rows.sum(axis=0, dtype=np.float32)
    found /= np.float32(max(len(rows), least_profile, 1))
    return found


def other_profile_bound(damping: float) -> float:
    """Return the most by which any s_jk, and so any f_j, moves when another user's whole profile is
    added or removed: 1 / (beta + 1). Replaced by another profile: at most twice that.

    Proof. Let a = n_j + beta, b = n_k + beta; c <= n_j and c <= n_k. A profile with both items
    raises s by at most (c + 1) / sqrt((a + 1)(b + 1)) - c / sqrt((a + 1)(b + 1)) <= 1 / (beta + 1).
    What lowers s are the norms. A rater more of j alone lowers it by

        c / sqrt(a b) (1 - sqrt(a / (a + 1)))  <=  c / sqrt(a b) / (a + 1)
                                               <=  c / ((c + beta) (c + beta + 1))

    and a rater of both by at most twice that, which is at most 1 / (beta + 1), because
    (c + beta)(c + beta + 1) - 2c (beta + 1) = c^2 - c + beta^2 + beta >= 0 for whole c. f_j is a
    sum of m such s divided by at least m.
    """
    return 1 / (checked_damping(damping) + 1)


def own_report_bound(least_profile: int) -> float:
    """Return the most by which an own report, added or removed, moves f_j of an item j that the
    user has not reported: 1 / T; 1 / (T + 1) for a user with T reports or more.

    Proof. The user is a rater of neither j nor anything with j: only the new term s_lj, within
    0 .. 1, is added. With m >= T items f moves by |s_lj - f| / (m + 1) <= 1 / (T + 1), with fewer
    by s_lj / T.
    """
    return 1 / _least(least_profile)


def own_report_bound_of_any_item(damping: float, least_profile: int) -> float:
    """Return the same for every j, reported ones included: the larger of 1 / T and 1 / (T + 1) +
    1 / (beta + 1), which is the second unless beta >= T (T + 1).

    Proof. Of j = l the user becomes a co-rater of j and each k of the history, of which b >= beta
    + 1: each s_kj moves by at most 1 / (beta + 1), as in `other_profile_bound`. With m >= T items
    the sum is then divided by m + 1 instead of m, which moves f by f / (m + 1) at most; with fewer
    the divisor stays T. Any other j: `own_report_bound`. Where the list of a device is bounded, a
    report that evicts another counts as two.
    """
    least = _least(least_profile)
    return max(1 / least, 1 / (least + 1) + 1 / (checked_damping(damping) + 1))


def _least(least_profile: int) -> int:
    if least_profile < 1:
        raise ValueError(f"least profile {least_profile}: must be 1 or more items")
    return least_profile
