"""Lists over the head items by each ranking method, and how candidates are found.

    popular    public popularity
    ease       row sums of the links over the history
    low_rank   candidates from the taste index, ranked by the posterior mean
    factors    predicted rating
    blend      candidates from the taste index, from the links, from what follows and from
               popularity, ranked by the fitted blend of all of them

A candidate is always ranked by the exact score, so an index can only omit an item.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.models.retrieval import Index, recall
from stream_app.ranking.scores import Components, Weights, blend, top_slots

Slots = NDArray[np.intp]
Mask = NDArray[np.bool_]
INDEXED = ("low_rank", "blend")
_SPARE = 20  # candidates beyond half as many again as are wanted


class HeadScores(NamedTuple):
    """The scores (n,) of every head item for one user, the taste vector (r,), which items (n,) may
    be shown, and whether the user has a history among the head items."""

    components: Components
    taste: NDArray[np.float32]
    allowed: Mask
    personal: bool


def scores_by(method: str, components: Components, weights: Weights) -> NDArray[np.float32]:
    """Return the scores (n,) by which `method` ranks."""
    if method == "blend":
        return blend(components, weights)
    name = "stars" if method == "factors" else method
    scores: NDArray[np.float32] = getattr(components, name)
    return scores


def best_slots(
    found: HeadScores, method: str, weights: Weights, index: Index | None, count: int
) -> Slots:
    """Return the best `count` slots that may be shown, best first."""
    scores = scores_by(method, found.components, weights)
    allowed = found.allowed
    if method in INDEXED and index is not None:
        allowed = candidates(found, method, index, count)
    return top_slots(scores, count, allowed)


def candidates(found: HeadScores, method: str, index: Index, count: int) -> Mask:
    """Return which slots (n,) are ranked for a list of `count`."""
    wanted, allowed = count + count // 2 + _SPARE, found.allowed
    rows, _ = index.search(found.taste, wanted, lambda slots: allowed[slots])
    chosen = np.zeros(len(allowed), np.bool_)
    chosen[rows] = True
    if method == "blend":
        parts = found.components
        for scores in (parts.ease, parts.ordered, parts.popular):
            chosen[top_slots(scores, wanted, allowed)] = True
    return chosen


def index_recall(found: HeadScores, index: Index, count: int, listed: int) -> float:
    """Return the share of the exact best `count` by taste that a search for a list of `listed`
    items found."""
    scores, chosen = found.components.low_rank, candidates(found, "low_rank", index, listed)
    best, listed_slots = top_slots(scores, count, found.allowed), top_slots(scores, count, chosen)
    return recall(scores[listed_slots], scores[best])
