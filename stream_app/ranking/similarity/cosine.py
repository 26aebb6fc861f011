"""Cosine between items, by who rated them, whatever they rated.

    s_jk = c_jk / sqrt(n_j n_k)                           (Park and Acharya 2011, eq. 7)
    f_j  = 1/m sum_k s_kj                                 (eq. 8)

and damped, which bounds what one person can change and keeps pairs of rare items low:

    s_jk = c_jk / sqrt((n_j + beta) (n_k + beta))
    f_j  = sum_k s_kj / max(m, T)

c_jk: co-raters of j and k; n_j: raters of j; k: the m items that the user has rated. s_jj = 0: an
item says nothing about itself.

"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.similarity.slope_one import checked_damping
from stream_app.ranking.similarity.table import CoRatingTable


def similarities(table: CoRatingTable, damping: float | None = None) -> NDArray[np.float32]:
    """Return s (n, n), symmetric, within 0 .. 1; 0 on the diagonal and for items without raters.
    Of counts with noise it may leave 0 .. 1.

    damping: beta, or None for plain cosine. Off the learning thread: some 50 ms for 4,096 items.

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


def contributions(
    similarities: NDArray[np.float32], slots: NDArray[np.integer], targets: NDArray[np.integer]
) -> NDArray[np.float32]:
    """Return s_kj (m, t): what each item of the history adds to each of the slots `targets`; 0 for
    an item without a slot."""
    places = np.asarray(slots, np.int64)
    found: NDArray[np.float32] = similarities[np.ix_(places.clip(0), targets)]
    found[places < 0] = 0
    return found
