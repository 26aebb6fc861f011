"""Lists over the head items, and how candidates are found.

    popular            the probability that a user has the item
    links, learned     candidates from the taste index and by the score, ranked by the score
                       (`ranking/scores.py`)

A candidate is always ranked by the exact score, so an index can only omit an item.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.models.retrieval import Index, recall
from stream_app.ranking.histories import History
from stream_app.ranking.scores import top_slots

Slots = NDArray[np.intp]
Mask = NDArray[np.bool_]
_SPARE = 20  # candidates beyond half as many again as are wanted


class HeadScores(NamedTuple):
    """The scores (n,) of every head item for one user and what they are made from, the history and
    the taste vector (r,) behind them, and which items (n,) may be shown."""

    scores: NDArray[np.float32]
    basis: str
    history: History
    taste: NDArray[np.float32]
    allowed: Mask


def best_slots(found: HeadScores, index: Index | None, count: int) -> Slots:
    """Return the best `count` slots that may be shown, best first."""
    allowed = found.allowed
    if index is not None:
        chosen = candidates(found, index, count)
        chosen[top_slots(found.scores, count, allowed)] = True
        allowed = chosen
    return top_slots(found.scores, count, allowed)


def candidates(found: HeadScores, index: Index, count: int) -> Mask:
    """Return which slots (n,) the index finds for a list of `count`."""
    wanted, allowed = count + count // 2 + _SPARE, found.allowed
    rows, _ = index.search(found.taste, wanted, lambda slots: allowed[slots])
    chosen = np.zeros(len(allowed), np.bool_)
    chosen[rows] = True
    return chosen


def index_recall(
    found: HeadScores, low_rank: NDArray[np.float32], index: Index, count: int, listed: int
) -> float:
    """Return the share of the exact best `count` by taste, `low_rank` (n,), that a search for a
    list of `listed` items found."""
    chosen = candidates(found, index, listed)
    best, shown = (top_slots(low_rank, count, mask) for mask in (found.allowed, chosen))
    return recall(low_rank[shown], low_rank[best])
