"""How good lists are, on relevance that is yes or no.

    nDCG@k      mean over users of  sum over hits 1 / log2(rank + 1)  /  the same of a perfect list
    recall@k    mean over users of  hits / min(k, relevant items)
    hit rate@k  share of users with a hit
    coverage    share of the catalogue that occurs in any list
    overlap     mean share that the lists of two users have in common
    popularity share   share of all places that the most popular items take

(Jaervelin and Kekaelaeinen 2002.) Lists: (u, k) item numbers, best first, -1 where a list is
shorter. Users without a relevant item are left out of the first three; NaN where none is left.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Lists = NDArray[np.integer]
Relevant = Sequence[NDArray[np.integer]]


def hits(lists: Lists, relevant: Relevant) -> NDArray[np.bool_]:
    """Return (u, k): whether the item at each place is relevant to its user."""
    if len(lists) != len(relevant):
        raise ValueError(f"{len(lists)} lists for {len(relevant)} users")
    found = [np.isin(row, wanted) & (row >= 0) for row, wanted in zip(lists, relevant, strict=True)]
    return np.array(found, bool).reshape(np.shape(lists))


def ndcg(lists: Lists, relevant: Relevant) -> float:
    """Return nDCG@k, k the width of `lists`."""
    return _mean(ndcg_of_users(lists, relevant), relevant)


def ndcg_of_users(lists: Lists, relevant: Relevant) -> NDArray[np.float64]:
    """Return nDCG@k of each user (u,), 0 for users without relevant items."""
    gains = 1 / np.log2(np.arange(lists.shape[1]) + 2)
    best = np.concatenate([[0.0], np.cumsum(gains)])
    ideal = best[[min(len(wanted), lists.shape[1]) for wanted in relevant] or slice(0)]
    found = hits(lists, relevant) @ gains
    users = np.divide(found, ideal, out=np.zeros(len(lists)), where=ideal > 0)
    return np.asarray(users, np.float64)


def recall(lists: Lists, relevant: Relevant) -> float:
    """Return recall@k."""
    places = lists.shape[1]
    number = np.array([min(max(len(wanted), 1), places) for wanted in relevant], np.float64)
    found = hits(lists, relevant).sum(axis=1).astype(np.float64)
    return _mean(np.asarray(found / np.maximum(number, 1), np.float64), relevant)


def hit_rate(lists: Lists, relevant: Relevant) -> float:
    """Return the share of users with a relevant item in their list."""
    return _mean(np.asarray(hits(lists, relevant).any(axis=1), np.float64), relevant)


def coverage(lists: Lists, items: int) -> float:
    """Return the share of the `items` items of the catalogue that occur in any list."""
    if items < 1:
        return float("nan")
    return len(np.unique(lists[lists >= 0])) / items


def overlap(lists: Lists, pairs: int = 2000, seed: int = 0) -> float:
    """Return the mean share of places that two users' lists have in common: over all pairs of
    users, or `pairs` drawn ones where there are more; NaN for fewer than two users."""
    users, k = lists.shape
    if users < 2 or not k:
        return float("nan")
    if users * (users - 1) // 2 <= pairs:
        first, second = np.triu_indices(users, 1)
    else:
        random = np.random.default_rng(seed)
        first = random.integers(users, size=pairs)
        second = (first + random.integers(1, users, size=pairs)) % users
    shared = (lists[first][:, :, None] == lists[second][:, None, :]) & (lists[first] >= 0)[
        :, :, None
    ]
    return float(shared.any(axis=2).sum(axis=1).mean() / k)


def popularity_share(lists: Lists, popular: NDArray[np.integer]) -> float:
    """Return the share of all places that items of `popular` take; NaN for empty lists."""
    placed = lists[lists >= 0]
    return float(np.isin(placed, popular).mean()) if len(placed) else float("nan")


def _mean(values: NDArray[np.float64], relevant: Relevant) -> float:
    counted = np.array([len(wanted) > 0 for wanted in relevant], bool)
    return float(values[counted].mean()) if counted.any() else float("nan")
