"""Top-k for a user: candidates from the index without seen and withdrawn items; popular items for
an unknown user.

    score(u, i) = clip(mean + b_u + b_i + p_u . q_i, 1, 5)      on the internal scale

The index is derived from the learner and not part of the state: items that were just learned are
refreshed first, then the others in turn (every write to a sketch slightly changes the vectors that
collide with it). An unknown user, or one for whom the index has too few items left, gets the items
with the most ratings, by their count-min estimate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_app.models import retrieval
from stream_app.serving.catalogue import Catalogue
from stream_app.state.replica import Replica
from stream_app.wire import LIST_LENGTH, user_key

Rows = NDArray[np.int64]
_SPARE = 20  # candidates beyond half as many again as are wanted


@dataclass(frozen=True, eq=False)
class RankedItems:
    """Items (k,) uint64 with their predicted ratings (k,), best first; the method that found them;
    the cut of the state."""

    items: NDArray[np.uint64]
    scores: NDArray[np.float64]
    method: str
    as_of: int


class Recommender:
    """Answers from one replica; `mark_stale` and `refresh` keep its index close to the learner."""

    def __init__(
        self, replica: Replica, catalogue: Catalogue, method: str = "auto", code_bits: int = 256
    ) -> None:
        self.replica = replica
        self.catalogue = catalogue
        self._method, self._code_bits = method, code_bits
        self.restart()

    def restart(self) -> None:
        """Start a new index, after the whole state of the replica was replaced."""
        replica = self.replica
        self.index = retrieval.build(
            self._method, replica.learner.factors, self._code_bits, replica.spec.seed
        )
        self._stale = np.ones(len(replica.items), np.bool_)
        self._next = 0
        self._popular: tuple[int, Rows] = (-1, np.empty(0, np.int64))

    def mark_stale(self, rows: Rows) -> None:
        """Note items (rows of the item directory) whose vectors have changed or are new."""
        if len(rows):
            top = int(rows.max()) + 1
            if top > len(self._stale):
                grown = np.zeros(max(top, 2 * len(self._stale)), np.bool_)
                grown[: len(self._stale)] = self._stale
                self._stale = grown
            self._stale[rows] = True

    def refresh(self, limit: int = 512) -> int:
        """Update at most `limit` items of the index and return how many were updated."""
        size = len(self.replica.items)
        fresh = np.flatnonzero(self._stale[:size])[:limit]
        rest = min(limit - len(fresh), size)
        if rest:
            turn = (self._next + np.arange(rest)) % size
            self._next = int((self._next + rest) % size)
            # New rows are appended without a hole: they are stale, and stale rows come first and
            # in order.
            fresh = np.unique(np.concatenate((fresh, turn[turn < self.index.size])))
        if len(fresh):
            vectors, biases = self.replica.learner.items(self.replica.items.keys[fresh])
            self.index.update(fresh, vectors, biases)
            self._stale[fresh] = False
        return len(fresh)

    def answer(self, device: bytes, count: int) -> RankedItems:
        """Return the best `count` items for the device with this pseudonym."""
        replica = self.replica
        user = user_key(device)
        if self.index.size < len(replica.items):
            self.refresh(int(self._stale[: len(replica.items)].sum()))
        if not self._known(device) or not self.index.size:
            rows, method = self._popular_rows(user, count), "popular"
        else:
            rows, method = self._best(user, count), self.index.method
            if len(rows) < count:
                more = self._popular_rows(user, count + len(rows))
                rows = np.concatenate((rows, more[~np.isin(more, rows)]))[:count]
        items = replica.items.keys[rows]
        scores = replica.learner.predict_many(np.full(len(items), user, np.uint64), items)
        return RankedItems(items, scores, method, replica.cut)

    def recall(self, device: bytes, count: int) -> float:
        """Return recall@`count` of this device's answer against the exact top `count`; NaN for an
        unknown device.

        Exact scores use the learner's current vectors, so a stale index lowers the recall.
        """
        if not self._known(device) or not self.index.size:
            return float("nan")
        user = user_key(device)
        rows = np.arange(len(self.replica.items))
        rows = rows[self._allowed(user, rows)]
        best = rows[np.argsort(-self._scores(user, rows), kind="stable")[:count]]
        return retrieval.recall(self._best(user, LIST_LENGTH)[:count], best)

    def _best(self, user: int, count: int) -> Rows:
        """Search more candidates than wanted and rank them by the learner's current scores.

        The index may lag behind the learner; the ranking reads the vector of each candidate.
        """
        vector = self.replica.learner.users(np.array([user], np.uint64))[0][0]
        wanted = count + count // 2 + _SPARE
        rows, _ = self.index.search(vector, wanted, lambda r: self._allowed(user, r))
        return rows[np.argsort(-self._scores(user, rows), kind="stable")[:count]]

    def _scores(self, user: int, rows: Rows) -> NDArray[np.float32]:
        """Return the current ranking score b_i + p_u . q_i of items for a user."""
        vector = self.replica.learner.users(np.array([user], np.uint64))[0][0]
        vectors, biases = self.replica.learner.items(self.replica.items.keys[rows])
        scores: NDArray[np.float32] = vectors @ vector + biases
        return scores

    def _known(self, device: bytes) -> bool:
        halves = np.frombuffer(device, "<u8").astype(np.uint64).reshape(1, 2)
        return bool(self.replica.marks.find(halves)[0] > 0)

    def _allowed(self, user: int, rows: Rows) -> NDArray[np.bool_]:
        items = self.replica.items.keys[rows]
        seen = self.replica.seen.test_many(np.full(len(rows), user, np.uint64), items)
        return ~seen & ~self.catalogue.withdrawn(items)

    def _popular_rows(self, user: int, count: int) -> Rows:
        cut, order = self._popular
        if cut != self.replica.cut or len(order) != len(self.replica.items):
            counts = self.replica.frequencies.estimate_many(self.replica.items.keys)
            order = np.argsort(-counts, kind="stable").astype(np.int64)
            self._popular = self.replica.cut, order
        allowed = order[self._allowed(user, order)] if len(order) else order
        return allowed[:count]
