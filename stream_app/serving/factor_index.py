"""The index over the learner's item vectors: candidates by predicted rating.

The index is derived from the learner and not part of the state: items that were just learned are
refreshed first, then the others in turn (every write to a sketch slightly changes the vectors that
collide with it). Where lists are made from pairs nothing asks this index, and it stays empty.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.models.retrieval.index import RowFilter, recall
from stream_app.models.retrieval.index_choice import new_index
from stream_app.state.replica import Replica

Rows = NDArray[np.int64]
SPARE = 20  # candidates beyond half as many again as are wanted
_AT_ONCE = 4096  # items that a query waits for, 3 us each


class FactorIndex:
    """Items by predicted rating; `mark_stale` and `refresh` keep the index close to the learner."""

    def __init__(self, replica: Replica, method: str, code_bits: int) -> None:
        self._replica = replica
        self.index = new_index(method, replica.learner.factors, code_bits, replica.spec.seed)
        self.asked = not replica.spec.head_items
        self._stale = np.ones(len(replica.items) if self.asked else 0, np.bool_)
        self._next = 0

    def mark_stale(self, rows: Rows) -> None:
        """Note rows of items whose vectors have changed or are new; those below 0 are passed
        over."""
        rows = rows[rows >= 0]
        if self.asked and len(rows):
            top = int(rows.max()) + 1
            if top > len(self._stale):
                grown = np.zeros(max(top, 2 * len(self._stale)), np.bool_)
                grown[: len(self._stale)] = self._stale
                self._stale = grown
            self._stale[rows] = True

    def refresh(self, limit: int = 512) -> int:
        """Update at most `limit` items of the index and return how many were updated."""
        size = len(self._replica.items) if self.asked else 0
        fresh = np.flatnonzero(self._stale[:size])[:limit]
        rest = min(limit - len(fresh), size)
        if rest:
            turn = (self._next + np.arange(rest)) % size
            self._next = int((self._next + rest) % size)
            # New rows are appended without a hole: they are stale, and stale rows come first and
            # in order.
            fresh = np.unique(np.concatenate((fresh, turn[turn < self.index.size])))
        if len(fresh):
            vectors, biases = self._replica.learner.items(self._replica.items.keys[fresh])
            self.index.update(fresh, vectors, biases)
            self._stale[fresh] = False
        return len(fresh)

    def catch_up(self) -> None:
        """Update stale items where the index lacks one, a few thousand at most."""
        if self.index.size < len(self._replica.items):
            self.refresh(_AT_ONCE)

    def best(self, user: int, count: int, allowed: RowFilter) -> Rows:
        """Search more candidates than wanted and rank them by the learner's current scores.

        The index may lag behind the learner; the ranking reads the vector of each candidate.
        """
        wanted = count + count // 2 + SPARE
        rows, _ = self.index.search(self._vector(user), wanted, allowed)
        return rows[np.argsort(-self._scores(user, rows), kind="stable")[:count]]

    def exact_best(self, user: int, count: int, allowed: RowFilter) -> Rows:
        """Return the best of all items by the learner's current scores."""
        rows = np.arange(len(self._replica.items))
        rows = rows[allowed(rows)]
        return rows[np.argsort(-self._scores(user, rows), kind="stable")[:count]]

    def recall(self, user: int, count: int, listed: int, allowed: RowFilter) -> float:
        """Return the share of the exact best `count` that a search for `listed` items found."""
        rows, best = self.best(user, listed, allowed)[:count], self.exact_best(user, count, allowed)
        return recall(self._scores(user, rows), self._scores(user, best))

    def _vector(self, user: int) -> NDArray[np.float32]:
        vectors, _ = self._replica.learner.users(np.array([user], np.uint64))
        vector: NDArray[np.float32] = vectors[0]
        return vector

    def _scores(self, user: int, rows: Rows) -> NDArray[np.float32]:
        """Return the current ranking score b_i + p_u . q_i of items for a user."""
        vectors, biases = self._replica.learner.items(self._replica.items.keys[rows])
        scores: NDArray[np.float32] = vectors @ self._vector(user) + biases
        return scores
