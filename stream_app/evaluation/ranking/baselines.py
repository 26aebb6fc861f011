"""Lists to compare with, made from the TRUE ratings of the learned part.

    popular      how many users rated the item
    item means   mean rating, shrunken to the overall mean with the weight of 50 ratings
    item-kNN     sum over the history of the cosine to it, of the 100 nearest items of each item
                 (Deshpande and Karypis 2004)
    EASE clean   x B of the liked history, B = -P / diag(P) off the diagonal, P = (X^T X + lambda
                 I)^-1 of everybody's likes (Steck 2019, equation 8)

The last two know the 4,096 most rated items. An item that a method does not know, or that has
score 0, follows the others, by popularity.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.evaluation.ranking.lists import Scorer
from stream_app.evaluation.ranking.task import LearnedRatings, Ragged, RankingTask
from stream_app.ranking import ease

MEAN_WEIGHT = 50.0
NEIGHBOURS = 100
HEAD = 4_096
RIDGE_SHARE = 0.2  # lambda as a share of the number of users: 1,200 of the 6,040 of ML-1M
_BLOCK = 1_024


def popular(task: RankingTask) -> Scorer:
    """Score every item by its number of learned ratings."""
    return _same_for_all(_counts(task))


def item_means(task: RankingTask) -> Scorer:
    """Score every item by its shrunken mean rating."""
    learned = task.learned
    counts = _counts(task)
    sums = np.bincount(learned.items, learned.ratings, minlength=len(counts))
    overall = learned.ratings.mean()
    return _same_for_all((sums + MEAN_WEIGHT * overall) / (counts + MEAN_WEIGHT))


def item_neighbours(task: RankingTask) -> Scorer:
    """Score every item by its cosines to the items of the history."""
    head = head_of(task)
    pairs = _pairs(task, head, np.ones_like(task.learned.liked))
    norms = np.sqrt(np.maximum(np.diag(pairs), 1.0))
    cosines: NDArray[np.float32] = (pairs / norms[:, None] / norms).astype(np.float32)
    np.fill_diagonal(cosines, 0)
    if len(head) > NEIGHBOURS:
        least = np.partition(cosines, -NEIGHBOURS, axis=0)[-NEIGHBOURS]
        cosines[cosines < least] = 0
    return _linear(task, head, cosines, liked_only=False)


def clean_ease(task: RankingTask) -> Scorer:
    """Score every item by EASE of the true likes, with the liked part of the history."""
    head = head_of(task)
    pairs = _pairs(task, head, task.learned.liked)
    return _linear(task, head, ease.weights(pairs, RIDGE_SHARE * len(task.users)), liked_only=True)


def _counts(task: RankingTask) -> NDArray[np.float64]:
    return np.bincount(task.learned.items, minlength=len(task.items)).astype(np.float64)


def _same_for_all(scores: NDArray[np.float64]) -> Scorer:
    return lambda first, last: np.broadcast_to(scores, (last - first, len(scores)))


def head_of(task: RankingTask) -> NDArray[np.intp]:
    """Return the places of the most rated items, rising."""
    return np.sort(np.argsort(-_counts(task), kind="stable")[:HEAD])


def _pairs(
    task: RankingTask, head: NDArray[np.intp], counted: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """Return how many users have both of two head items (h, h) in the counted rows."""
    learned: LearnedRatings = task.learned
    place = np.full(len(task.items), -1, np.intp)
    place[head] = np.arange(len(head))
    rows = np.flatnonzero(counted & (place[learned.items] >= 0))
    rows = rows[np.argsort(learned.users[rows], kind="stable")]
    users, columns = learned.users[rows], place[learned.items[rows]]
    pairs = np.zeros((len(head), len(head)), np.float32)
    for first in range(0, len(task.users), _BLOCK):
        span = slice(*np.searchsorted(users, (first, first + _BLOCK)))
        cells = np.zeros((min(_BLOCK, len(task.users) - first), len(head)), np.float32)
        cells[users[span] - first, columns[span]] = 1
        pairs += cells.T @ cells
    return pairs


def below_all(task: RankingTask) -> NDArray[np.float32]:
    """Return the counts of all items (n,) as scores below every score of a method, in their
    order."""
    counts = _counts(task)
    below: NDArray[np.float32] = (1e-6 * counts / max(counts.max(), 1.0)).astype(np.float32)
    return below


def _linear(
    task: RankingTask, head: NDArray[np.intp], weights: NDArray[np.float32], *, liked_only: bool
) -> Scorer:
    """Score by `history @ weights` (h, h) over the head; popularity decides between equals."""
    below = below_all(task)
    history: Ragged = task.history

    def scores(first: int, last: int) -> NDArray[np.floating]:
        has = history.dense(first, last, len(task.items))
        if liked_only:
            has = _liked(history).dense(first, last, len(task.items))
        found = np.broadcast_to(below, has.shape).copy()
        found[:, head] += has[:, head].astype(np.float32) @ weights
        return found

    return scores


def _liked(history: Ragged) -> Ragged:
    """Return the liked part of the histories."""
    before = np.concatenate(([0], np.cumsum(history.liked)))
    starts = before[history.starts].astype(np.intp)
    values = history.values[history.liked]
    return Ragged(starts, values, np.ones(len(values), np.bool_))
