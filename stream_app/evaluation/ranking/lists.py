"""From scores to lists of k items for each tested user.

A user's own history is left out. Equal scores keep the order of the item keys; an item that a
method cannot rank has the score -inf and is in no list, so a list may be shorter than k: its empty
places hold -1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stream_app.evaluation.ranking.task import RankingTask

Scorer = Callable[[int, int], NDArray[np.floating]]
"""Return the scores (last - first, items) of tested users first .. last - 1."""

_BLOCK = 256


def lists_of(task: RankingTask, scores: Scorer, k: int) -> NDArray[np.intp]:
    """Return the best k items (t, k) of each tested user, best first, -1 where there are fewer."""
    n, users = len(task.items), len(task.tested)
    lists = np.full((users, k), -1, np.intp)
    for first in range(0, users, _BLOCK):
        last = min(first + _BLOCK, users)
        found = np.array(scores(first, last), np.float32)
        found[task.history.dense(first, last, n)] = -np.inf
        lists[first:last, : min(k, n)] = _best(found, k)
    return lists


def _best(scores: NDArray[np.float32], k: int) -> NDArray[np.intp]:
    """Return the columns (b, min(k, n)) of the k largest of each row, -1 for -inf."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    order[np.isneginf(np.take_along_axis(scores, order, 1))] = -1
    return order
