"""Lists of a `Recommender`: what goes together among the ratings that it has learned.

    learned ratings --counted before the next list--> pairs of items, recent items of each user
                                |                                   |
        a sample of the likes, ranked by each method      item side (`ranking/derivation.py`)
        before it is counted --> which method serves

State, derivation and scores are a worker's. Popular items serve until another method is measurably
better on ratings that the item side was not made from: the last fifth before the first list, and
what is learned later. Predicted ratings do not enter the scores, because the learner has learned
those of the sample already. Order counts where every rating came with its time; without times the
ratings are counted in a random order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.models.cooccurrence.item_pairs import ItemPairs, RecordColumns
from stream_app.models.cooccurrence.like_weights import like_weights
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import Learner
from stream_app.ranking.derivation import MIDDLE, derive
from stream_app.ranking.histories import History
from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.online_choice import OnlineChoice
from stream_app.ranking.pair_counts import LIKED, WEIGHT_ONE
from stream_app.ranking.reasons import ALONE, reasons_of
from stream_app.ranking.scores import (
    Components,
    TasteMap,
    Weights,
    component_scores,
    fallback,
    taste_map,
    top_slots,
)
from stream_app.ranking.similarity.linked import linked_to
from stream_app.serving.head_lists import scores_by
from stream_app.state.item_directory import ItemDirectory

HEAD_ITEMS, RECENT_ITEMS = 2048, 128  # a worker's defaults
SAMPLES = 2_000  # of the ratings that are counted together
_GROWN = 1.1  # times the ratings of the last derivation: derive again
_ROUND = 8192  # ratings between two elections
_POPULAR, _PERSONAL = "popular", ("ease", "low_rank", "blend")


class _Learned(NamedTuple):
    """Learned ratings (n,): rows of users and items, reports, predictions on 1 .. 5."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    reports: NDArray[np.uint8]
    predicted: NDArray[np.float64]

    def at(self, rows: slice | NDArray[np.intp]) -> _Learned:
        return _Learned._make(column[rows] for column in self)


class _ReadySide(NamedTuple):
    """An item side made ready for queries: the slot of each item (rows; -1: none), the item of
    each slot, and the map from histories to tastes."""

    side: ItemSide
    slots: NDArray[np.int64]
    rows: NDArray[np.int64]
    tastes: TasteMap

    def components(self, history: History) -> Components:
        """Return the scores of every item of the side."""
        return component_scores(self.side, history, self.tastes.taste(history))


class LearnedLists:
    """Counts what a learner has learned, and makes lists of it.

    channels: of one mechanism that protects the value of a rating. seed: of the random order.
    """

    def __init__(self, channels: Channels, learner: Learner, seed: int) -> None:
        self._learner, self._seed = learner, seed
        self._items, self._users = ItemDirectory(), ItemDirectory()
        self._pairs = ItemPairs(
            channels,
            like_weights(channels),
            HEAD_ITEMS,
            RECENT_ITEMS,
            one=WEIGHT_ONE,
            in_order=True,
        )
        self._waiting: list[_Learned] = []
        self._in_time = True
        self._seen: dict[int, set[int]] = {}
        self._counted = self._derived_from = 0
        self._ready: _ReadySide | None = None
        self._choice = OnlineChoice()

    @property
    def method(self) -> str:
        """The method that ranks for users with a history."""
        return self._choice.best if self._choice.best in _PERSONAL else _POPULAR

    @property
    def keys(self) -> NDArray[np.uint64]:
        """The keys of all items (n,), by first appearance."""
        return self._items.keys

    def learned(
        self,
        users: NDArray[np.uint64],
        items: NDArray[np.uint64],
        reports: NDArray[np.uint8],
        predicted: NDArray[np.float64],
        *,
        in_time: bool,
    ) -> NDArray[np.int64]:
        """Note learned ratings; return the place of each item in `keys`."""
        rows = self._items.rows(items, add=True)
        self._waiting.append(_Learned(self._users.rows(users, add=True), rows, reports, predicted))
        self._in_time &= in_time
        return rows

    def best(self, user: np.uint64, k: int, *, exclude_seen: bool) -> NDArray[np.int64]:
        """Return the places in `keys` of at most k items, best first."""
        self._catch_up()
        row = int(self._users.rows(np.array([user], np.uint64))[0])
        allowed = np.ones(len(self._items), np.bool_)
        if exclude_seen:
            allowed[list(self._seen.get(row, ()))] = False
        rows = self._from_head(row, k, allowed)
        if len(rows) < k:
            allowed[rows] = False
            rows = np.concatenate((rows, self._rest(user, k - len(rows), allowed)))
        return rows

    def near(self, item: np.uint64, k: int) -> NDArray[np.int64]:
        """Return the places in `keys` of at most k items that go with one, nearest first; none for
        an item of which too little is known."""
        self._catch_up()
        ready, row = self._ready, int(self._items.rows(np.array([item], np.uint64))[0])
        if ready is None or not 0 <= row < len(ready.slots) or ready.slots[row] < 0:
            return np.empty(0, np.int64)
        return ready.rows[linked_to(ready.side, int(ready.slots[row]))[:k]]

    def because(self, user: np.uint64, items: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return for each item (m,) the place in `keys` of the user's item that adds most to its
        score, -1 where none does."""
        self._catch_up()
        found = np.full(len(items), -1, np.int64)
        ready, weights = self._ready, self._choice.weights
        if self.method != "blend":
            weights = ALONE.get(self.method, Weights(0, 0, 0, 0, 0))
        if ready is None:
            return found
        history = self._history(int(self._users.rows(np.array([user], np.uint64))[0]), ready)
        rows = self._items.rows(items)
        inside = np.flatnonzero((rows >= 0) & (rows < len(ready.slots)))
        inside = inside[ready.slots[rows[inside]] >= 0]
        tastes, components = ready.tastes.rows[history.slots], ready.components(history)
        listed = ready.slots[rows[inside]]
        first = reasons_of(ready.side, history, tastes, components, weights, listed).first()
        found[inside] = np.where(first >= 0, ready.rows[first], -1)
        return found

    def _from_head(self, user: int, k: int, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
        ready = self._ready
        if ready is None:
            return np.empty(0, np.int64)
        history = self._history(user, ready)
        method = self.method if len(history.slots) else _POPULAR
        scores = scores_by(method, ready.components(history), self._choice.weights)
        return ready.rows[top_slots(scores, k, allowed[ready.rows])]

    def _rest(self, user: np.uint64, k: int, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return items of which it is not known what goes with them, by popularity x predicted
        rating."""
        rows = np.flatnonzero(allowed)
        ratings = self._learner.predict_many(np.full(len(rows), user), self.keys[rows])
        counts = self._pairs.head.room("counts")[rows]
        scores = fallback(counts.astype(np.float32), ratings.astype(np.float32))
        return rows[np.argsort(-scores, kind="stable")[:k]]

    def _history(self, user: int, ready: _ReadySide) -> History:
        if user < 0:
            return History(np.empty(0, np.intp), np.empty(0, np.float32))
        items, weights = self._pairs.history(user)
        slots = np.full(len(items), -1)
        old = items < len(ready.slots)
        slots[old] = ready.slots[items[old]]
        known = slots >= 0
        ages = np.arange(len(items), dtype=np.float32)[::-1][known]
        return History(slots[known], weights[known], ages if self._in_time else None)

    def _catch_up(self) -> None:
        """Count what was learned since the last list; derive the item side where that is due."""
        if not self._waiting:
            return
        found = _Learned._make(map(np.concatenate, zip(*self._waiting, strict=True)))
        self._waiting.clear()
        if not self._in_time:
            rng = np.random.default_rng((self._seed, self._counted))
            found = found.at(rng.permutation(len(found.users)))
        if self._ready is None:
            first = 4 * len(found.users) // 5
            self._count(found.at(slice(first)))
            self._derive()
            found = found.at(slice(first, None))
        self._count_measured(found)
        if self._counted >= _GROWN * self._derived_from:
            self._derive()

    def _count_measured(self, found: _Learned) -> None:
        """Count ratings, a sample of them one by one after they were ranked."""
        total, start = len(found.users), 0
        most = min(SAMPLES, total) if self._ready is not None else 0
        for place in (np.arange(most) * total // max(most, 1)).tolist():
            self._count(found.at(slice(start, place)))
            start = place + 1
            self._measure(found.at(slice(place, start)))
        self._count(found.at(slice(start, None)))

    def _measure(self, rating: _Learned) -> None:
        """Count one rating; where it is a like, score every method on it."""
        ready = self._ready
        assert ready is not None
        user, item = int(rating.users[0]), int(rating.items[0])
        history = self._history(user, ready)
        seen = list(self._seen.get(user, ()))
        self._count(rating)
        slot = int(ready.slots[item]) if item < len(ready.slots) else -1
        items, weights = self._pairs.history(user)
        if slot < 0 or not len(history.slots) or not (weights[items == item] >= LIKED).any():
            return
        allowed = ~np.isin(ready.rows, seen)
        self._choice.observe(slot, ready.components(history), allowed)

    def _count(self, found: _Learned) -> None:
        self._pairs.extend(len(self._items), len(self._users))
        for first in range(0, len(found.users), _ROUND):
            part = found.at(slice(first, first + _ROUND))
            n = len(part.users)
            self._pairs.count(
                RecordColumns(
                    part.users, np.ones(n, np.int64), part.items, np.zeros(n, np.uint16),
                    part.reports, part.predicted, np.zeros(n, np.bool_),
                )
            )  # fmt: skip
            self._pairs.elect(self.keys)
        for user, item in zip(found.users.tolist(), found.items.tolist(), strict=True):
            self._seen.setdefault(user, set()).add(item)
        self._counted += len(found.users)

    def _derive(self) -> None:
        """Derive the item side from all that is counted."""
        if not self._counted:
            return
        counts = self._pairs.snapshot(self.keys, self._counted, 0.0, None).counts()
        previous = self._ready.side if self._ready else None
        middle = np.full(len(counts.keys), MIDDLE, np.float32)
        side = derive(counts, middle, previous=previous)
        rows = self._items.rows(side.keys)
        slots = np.full(len(self._items), -1)
        slots[rows] = np.arange(len(rows))
        self._ready = _ReadySide(side, slots, rows, taste_map(side))
        self._derived_from = self._counted
