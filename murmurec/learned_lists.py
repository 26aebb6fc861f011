"""Lists of a `Recommender`: what goes together among the ratings that it has learned.

    learned ratings --counted before the next list--> pairs of items, recent items of each user
                                                          |                     |
                                     item side (`ranking/derivation.py`)     history
                                                          +------> score <------+

State, derivation and scores are a worker's. Visits are the days of the ratings, where every rating
came with its time; else nothing is known of the order, and the ratings of a user are one visit.
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
from stream_app.ranking.pair_counts import WEIGHT_ONE
from stream_app.ranking.reasons import reasons_of
from stream_app.ranking.scores import fallback, linked_to, score, top_slots
from stream_app.serving.served_side import ServedSide
from stream_app.state.known_items import ItemDirectory

HEAD_ITEMS, RECENT_ITEMS = 2048, 256  # a worker's defaults
_GROWN = 1.1  # times the ratings of the last derivation: derive again
_ROUND = 8192  # ratings between two elections


class _Learned(NamedTuple):
    """Learned ratings (n,): rows of users and items, reports, predictions on 1 .. 5, days."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    reports: NDArray[np.uint8]
    predicted: NDArray[np.float64]
    days: NDArray[np.int64]

    def at(self, rows: slice | NDArray[np.intp]) -> _Learned:
        return _Learned._make(column[rows] for column in self)


class LearnedLists:
    """Counts what a learner has learned, and makes lists of it.

    channels: of one mechanism that protects the value of a rating. seed: of the random order.
    """

    def __init__(self, channels: Channels, learner: Learner) -> None:
        self._learner = learner
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
        self._served: ServedSide | None = None
        self._rows = np.empty(0, np.int64)  # of each slot

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
        days: NDArray[np.int64] | None,
    ) -> NDArray[np.int64]:
        """Note learned ratings and their days, None where times are not known; return the place of
        each item in `keys`."""
        rows = self._items.rows(items, add=True)
        known = np.zeros(len(rows), np.int64) if days is None else days
        found = _Learned(self._users.rows(users, add=True), rows, reports, predicted, known)
        self._waiting.append(found)
        self._in_time &= days is not None
        return rows

    def best(
        self, user: np.uint64, k: int, *, exclude_seen: bool, now: bool = False
    ) -> NDArray[np.int64]:
        """Return the places in `keys` of at most k items, best first: for the user's next visit, or
        `now` for this one."""
        self._catch_up()
        row = int(self._users.rows(np.array([user], np.uint64))[0])
        allowed = np.ones(len(self._items), np.bool_)
        if exclude_seen:
            allowed[list(self._seen.get(row, ()))] = False
        rows = self._from_head(row, k, allowed, now=now)
        if len(rows) < k:
            allowed[rows] = False
            rows = np.concatenate((rows, self._rest(user, k - len(rows), allowed)))
        return rows

    def near(self, item: np.uint64, k: int) -> NDArray[np.int64]:
        """Return the places in `keys` of at most k items that go with one, nearest first; none for
        an item of which too little is known."""
        self._catch_up()
        if self._served is None:
            return np.empty(0, np.int64)
        slots, known = self._served.slots_of(np.array([item], np.uint64))
        if not known[0]:
            return np.empty(0, np.int64)
        return self._rows[linked_to(self._served.side, int(slots[0]))[:k]]

    def because(self, user: np.uint64, items: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return for each item (m,) the place in `keys` of the user's item that adds most to its
        score, -1 where none does."""
        self._catch_up()
        found, served = np.full(len(items), -1, np.int64), self._served
        if served is None:
            return found
        history = self._history(int(self._users.rows(np.array([user], np.uint64))[0]), served)
        slots, known = served.slots_of(items)
        first = reasons_of(served.side, history, slots[known]).first()
        found[known] = np.where(first >= 0, self._rows[first], -1)
        return found

    def _from_head(
        self, user: int, k: int, allowed: NDArray[np.bool_], *, now: bool
    ) -> NDArray[np.int64]:
        if self._served is None:
            return np.empty(0, np.int64)
        scores = score(self._served.side, self._history(user, self._served), now=now)
        return self._rows[top_slots(scores, k, allowed[self._rows])]

    def _rest(self, user: np.uint64, k: int, allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return items of which it is not known what goes with them, by popularity x predicted
        rating."""
        rows = np.flatnonzero(allowed)
        ratings = self._learner.predict_many(np.full(len(rows), user), self.keys[rows])
        counts = self._pairs.head.room("counts")[rows]
        scores = fallback(counts.astype(np.float32), ratings.astype(np.float32))
        return rows[np.argsort(-scores, kind="stable")[:k]]

    def _history(self, user: int, served: ServedSide) -> History:
        if user < 0:
            return History.untimed(np.empty(0, np.intp), np.empty(0, np.float32))
        items, weights, visits_ago, ages = self._pairs.history(user)
        found = served.history(self.keys[items], weights, visits_ago, ages)
        return found if self._in_time else History.untimed(found.slots, found.weights)

    def _catch_up(self) -> None:
        """Count what was learned since the last list; derive the item side where that is due."""
        if not self._waiting:
            return
        self._count(_Learned._make(map(np.concatenate, zip(*self._waiting, strict=True))))
        self._waiting.clear()
        if self._counted >= _GROWN * self._derived_from:
            self._derive()

    def _count(self, found: _Learned) -> None:
        self._pairs.extend(len(self._items), len(self._users))
        for first in range(0, len(found.users), _ROUND):
            part = found.at(slice(first, first + _ROUND))
            n, sizes = len(part.users), np.ones(len(part.users), np.int64)
            devices, days = part.users, part.days
            if not self._in_time:  # one record a user: the order of its ratings says nothing
                part = part.at(np.argsort(part.users, kind="stable"))
                devices, sizes = np.unique(part.users, return_counts=True)
                days = np.zeros(len(devices), np.int64)
            self._pairs.count(
                RecordColumns(
                    devices, sizes, days, part.items, np.zeros(n, np.uint16), part.reports,
                    part.predicted, np.zeros(n, np.bool_),
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
        previous = self._served.derived if self._served else None
        middle = np.full(len(counts.keys), MIDDLE, np.float32)
        visits = self._pairs.visit_samples() if self._in_time else None
        self._served = ServedSide(derive(counts, middle, visits, previous=previous))
        self._rows = self._items.rows(self._served.side.keys)
        self._derived_from = self._counted
