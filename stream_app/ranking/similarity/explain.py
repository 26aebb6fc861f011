"""Why an item is in a list: the rated item that contributes most to its score.

    because_j = argmax over the history k of  contribution_kj

contribution_kj: s_kj of cosine, t_k - 3 of Slope One. An item of which nothing in the history
raises the score has no reason.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NOTHING = -1


def because(
    contributions: NDArray[np.floating],
    slots: NDArray[np.integer],
    ties: NDArray[np.uint64] | None = None,
) -> NDArray[np.int64]:
    """Return (t,) the slot of the item of the history that contributes most to each of t items, or
    -1 where nothing contributes more than 0.

    contributions (m, t): from `cosine.contributions` or `slope_one.contributions`. slots (m,): the
    history; an item without a slot (-1) is no reason. ties (n,): of equal contributions the item
    of the smallest tie is returned (`nearest.ties`), without it the first of the history.
    """
    places = np.asarray(slots, np.int64)
    order = np.flatnonzero(places >= 0)
    if ties is not None:
        order = order[np.argsort(ties[places[order]], kind="stable")]
    targets = contributions.shape[1]
    if not len(order) or not targets:
        return np.full(targets, NOTHING, np.int64)
    rows = contributions[order]
    best = rows.argmax(axis=0)
    most = rows[best, np.arange(targets)]
    return np.where(most > 0, places[order[best]], NOTHING).astype(np.int64)
