"""Lists to compare with, made from the TRUE ratings of the learned part.

    popular         how many users have rated the item
    recent popular  the same, a rating counting half as much 3.5 % of the stream later
    EASE            x B, x the likes of the history; B = -P / diag(P) off the diagonal, P = (X^T X +
                    lambda I)^-1 over all users, lambda .2 times their number (Steck 2019, eq. 8)

EASE knows the 4,096 most rated items. An item that it does not know, or that has score 0, follows
the others, by popularity.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.evaluation.ranking.task import RankingTask, Scorer
from stream_app.ranking import ease as links

HEAD = 4_096
HALF_LIFE = 0.035  # of the learned part of the stream
RIDGE_SHARE = 0.2
_BLOCK = 1_024


def popular(task: RankingTask) -> Scorer:
    """Score every item by its number of learned ratings."""
    return _same_for_all(_counts(task))


def recently_popular(task: RankingTask) -> Scorer:
    """Score every item by its learned ratings, the newest counting most."""
    rows = len(task.learned.items)
    ages = np.arange(rows)[::-1] / (HALF_LIFE * rows)
    found = np.bincount(task.learned.items, 2.0**-ages, len(task.items))
    return _same_for_all(found.astype(np.float64))


def ease(task: RankingTask) -> Scorer:
    """Score every item by EASE of the true likes and the user's own."""
    counts, history = _counts(task), task.history
    head = np.sort(np.argsort(-counts, kind="stable")[:HEAD])
    weights = links.weights(_pairs(task, head), RIDGE_SHARE * len(task.users))
    below = (1e-6 * counts / max(counts.max(), 1.0)).astype(np.float32)

    def scores(first: int, last: int) -> NDArray[np.floating]:
        x = np.zeros((last - first, len(task.items)), np.float32)
        for row, user in enumerate(range(first, last)):
            values, likes = history.of_user(user)
            x[row, values[likes]] = 1
        found = np.broadcast_to(below, x.shape).copy()
        found[:, head] += x[:, head] @ weights
        return found

    return scores


def _counts(task: RankingTask) -> NDArray[np.float64]:
    return np.bincount(task.learned.items, minlength=len(task.items)).astype(np.float64)


def _same_for_all(scores: NDArray[np.float64]) -> Scorer:
    return lambda first, last: np.broadcast_to(scores, (last - first, len(scores)))


def _pairs(task: RankingTask, head: NDArray[np.intp]) -> NDArray[np.float32]:
    """Return X^T X of the head items (h, h)."""
    learned, place = task.learned, np.full(len(task.items), -1, np.intp)
    place[head] = np.arange(len(head))
    rows = np.flatnonzero(learned.liked & (place[learned.items] >= 0))
    rows = rows[np.argsort(learned.users[rows], kind="stable")]
    users, columns = learned.users[rows], place[learned.items[rows]]
    pairs = np.zeros((len(head), len(head)), np.float32)
    for first in range(0, len(task.users), _BLOCK):
        span = slice(*np.searchsorted(users, (first, first + _BLOCK)))
        cells = np.zeros((min(_BLOCK, len(task.users) - first), len(head)), np.float32)
        cells[users[span] - first, columns[span]] = 1
        pairs += cells.T @ cells
    return pairs
