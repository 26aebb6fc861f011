"""Top-k for a user: items that go with what the user has, without seen and withdrawn ones.

    score     `ranking/scores.py`, by default or learned weights
    shown     clip(mean + b_u + b_i + p_u . q_i, 1, 5), the predicted rating on the internal scale

Lists are ranked over all items of the item side, which is derived from the state now and then: no
index stands between, since every score of a few thousand items takes less than a millisecond.
Without a history the score is that of popularity. Where fewer items than wanted are left, popular
items follow, ordered by popularity x predicted rating. Without an item side, as long as there is
none, everybody gets popular items; where no pairs are counted, candidates come from the index over
the learner's vectors, ranked by predicted rating.

The index is derived from the learner and not part of the state: items that were just learned are
refreshed first, then the others in turn (every write to a sketch slightly changes the vectors that
collide with it). Where lists are made from pairs nothing asks this index, and it stays empty.

The rated item behind each entry of a list, where the server knows what was rated.

Where presence is protected the reports of a device do not say what it has rated: most positive ones
are fakes. A list has no reasons then, nor has one of popular items.

Items near to one are for no user: the links of the item side, a history of that item alone. Only
items with a positive weight are listed, none of them withdrawn; the scores shown are the predicted
ratings of the average user. The reply's cut is that of the item side.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.models.retrieval.auto_index import Index, new_index
from stream_app.models.retrieval.index import RowFilter, ServiceLevel, recall
from stream_app.ranking.histories import History
from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.reasons import reasons_of
from stream_app.ranking.scores import basis_of, fallback, linked_to, score, top_slots
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.popular_items import PopularItems
from stream_app.serving.ranked_items import RankedItems, Refused
from stream_app.serving.served_side import POPULAR, HeadScores, ServedMethod, ServedSide
from stream_app.state.replica import Replica
from stream_app.wire import LIST_LENGTH, Item, key, user_key

NO_PAIRS = "items near to one are not served: no pairs of items are counted (head_items)"
NOTHING_YET = (
    "what goes together is not known yet: a worker works it out once 100 ratings have come; ask "
    "again then"
)
UNKNOWN = "similar_to: no rating of this item has come, and the catalogue has no entry of it"
OUTSIDE = "similar_to: the item is not among the most rated ones of which pairs are counted"
WITHDRAWN = "similar_to: the item is withdrawn"


def similar_items(recommender: Recommender, item: Item, count: int) -> RankedItems | Refused:
    """Return at most `count` items near to one, best first, or why there are none."""
    replica, catalogue, served = recommender.replica, recommender.catalogue, recommender.served
    item_key = key(item)
    wanted = np.array([item_key], np.uint64)
    if not replica.spec.head_items:
        return Refused(NO_PAIRS)
    if catalogue.withdrawn(wanted)[0]:
        return Refused(WITHDRAWN)
    if replica.items.rows(wanted)[0] < 0 and item_key not in catalogue.entries:
        return Refused(UNKNOWN)
    if served is None:
        return Refused(NOTHING_YET)
    slots, known = served.slots_of(wanted)
    if not known[0]:
        return Refused(OUTSIDE)
    near = served.side.keys[linked_to(served.side, int(slots[0]))]
    shown = (replica.items.rows(near) >= 0) & ~catalogue.withdrawn(near)
    keys = near[shown][:count]
    _, biases = replica.learner.items(keys)
    ratings = np.clip(replica.learner.mean + biases.astype(np.float64), 1, 5)
    return RankedItems(keys, ratings, "ease", served.side.version)


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


class _Ranked(NamedTuple):
    """Rows of a list (k,), the method that ranked it, and the reasons (k,) or none."""

    rows: Rows
    method: str
    because: tuple[int | None, ...] = ()


class Recommender:
    """Answers from one replica; `mark_stale` and `refresh` keep its index close to the learner,
    `adopt` and `standing` follow the item side and the measurement."""

    def __init__(
        self,
        replica: Replica,
        catalogue: Catalogue,
        method: str = "auto",
        code_bits: int = 256,
        *,
        recall: float = 0.99,
    ) -> None:
        self.replica = replica
        self.catalogue = catalogue
        self.index_name, self.code_bits = method, code_bits
        self.level = ServiceLevel(recall)
        self.restart()

    def restart(self) -> None:
        """Start over, after the whole state of the replica was replaced."""
        self._factors = FactorIndex(self.replica, self.index_name, self.code_bits)
        self._factors.index.level = self.level
        self._popular = PopularItems(self.replica.items)
        self.served: ServedSide | None = None
        self._head_rows: Rows = np.empty(0, np.int64)
        self.standing = ServedMethod()

    @property
    def index(self) -> Index:
        """The index over the learner's vectors, which is asked where no pairs are counted."""
        return self._factors.index

    @property
    def candidates(self) -> int:
        """How many items an exact answer scores."""
        return len(self.replica.items) if self.served is None else len(self.served.side)

    @property
    def side(self) -> ItemSide | None:
        """The item side in use; None as long as there is none."""
        served = self.served
        return served.side if served else None

    def mark_stale(self, rows: Rows) -> None:
        """Note rows of items that were just reported, -1 for an item without a row."""
        items = len(self.replica.items)
        if len(rows) > items:
            reported = np.zeros(items + 1, np.bool_)  # the last one: those without a row
            reported[rows] = True
            rows = np.flatnonzero(reported[:-1])
        self._factors.mark_stale(rows)
        self._popular.note(rows)

    def replaced(self, rows: Rows) -> None:
        """Take in rows that have another item now."""
        if len(rows):
            self._factors.mark_stale(rows)
            self._popular.replaced(rows)
            if self.served is not None:
                self._head_rows = self.replica.items.rows(self.served.side.keys)

    def refresh(self, limit: int = 512) -> int:
        """Update at most `limit` items of the index over the learner's vectors and return how many
        were updated."""
        return self._factors.refresh(limit)

    def adopt(self, served: ServedSide) -> None:
        """Rank with this item side from now on."""
        self.served = served
        self._head_rows = self.replica.items.rows(served.side.keys)

    def search_level(self) -> dict[str, float | str]:
        """Return how candidates are found now: the method, the recall that is wanted, and how many
        times its first length a shortlist has."""
        level = self.level
        return {"method": self.index.method, "recall": level.target, "factor": level.factor}

    def memory(self) -> dict[str, int]:
        """Return the bytes that each part holds besides the state."""
        return {
            "index": self._factors.index.memory_bytes,
            "item side": self.served.memory_bytes if self.served else 0,
            "popular items": self._popular.memory_bytes,
        }

    def answer(self, device: bytes, count: int, *, now: bool = False) -> RankedItems:
        """Return the best `count` items for the device with this pseudonym: for its next visit, or
        `now` for this one."""
        user = user_key(device)
        self._factors.catch_up()
        rows, method, because = self._ranked(device, user, count, now=now)
        if len(rows) < count:
            more = self._fallback_rows(user, count + len(rows))
            rows = np.concatenate((rows, more[~np.isin(more, rows)]))[:count]
        items = self.replica.items.keys[rows]
        scores = self.replica.learner.predict_many(np.full(len(items), user, np.uint64), items)
        reasons = (*because, *(None,) * (len(items) - len(because))) if because else ()
        measured = self._measured(method, now=now)
        return RankedItems(items, scores, method, self.replica.cut, *measured, reasons, now=now)

    def _measured(self, method: str, *, now: bool) -> tuple[float | None, float | None]:
        """Return the measured nDCG@10 of such lists, and of popular items; None where unknown."""
        standing = self.standing
        served = standing.ndcg_popular if method == POPULAR else standing.ndcg
        by_score = not now and method in (POPULAR, "links", "learned")
        return served if by_score else None, standing.ndcg_popular

    def recall(self, device: bytes, count: int) -> float:
        """Return recall@`count` of the index for this device, against the exact best `count` by the
        current vectors, so a stale index lowers it; NaN for an unknown device, and where no list
        asks the index."""
        if not self.known(device) or not self.index.size or not self._factors.asked:
            return float("nan")
        user = user_key(device)
        return self._factors.recall(user, count, LIST_LENGTH, self._filter(user))

    def history(self, device: bytes, served: ServedSide) -> History:
        """Return what the state knows of a device, over the slots of an item side, of the feed that
        the side was derived from: noised bits are no likes, and likes no noised bits."""
        return served.history(*self.replica.history(device, reported=served.channel is not None))

    def head_scores(self, device: bytes, served: ServedSide, *, now: bool = False) -> HeadScores:
        """Return the scores of every item of an item side for a device, for either list."""
        known = self.history(device, served)
        history = served.scored(known, served.taste(known))
        return HeadScores(
            score(served.side, history, now=now),
            basis_of(served.side, history, now=now),
            history,
            self.allowed_slots(user_key(device), served),
        )

    def allowed_slots(self, user: int, served: ServedSide) -> NDArray[np.bool_]:
        """Return which slots (n,) of an item side may be shown to a user."""
        return self._allowed(user, served.side.keys)

    def _ranked(self, device: bytes, user: int, count: int, *, now: bool) -> _Ranked:
        """Return the rows of a list, the method that ranked it, and the reasons."""
        known, served, factors = self.known(device), self.served, self._factors.index
        if served is not None:
            return self._from_head(served, device, count, now=now)
        if known and not self.replica.spec.head_items and factors.size:
            rows = self._factors.best(user, count, self._filter(user))
            return _Ranked(rows, f"factors/{factors.method}")
        return _Ranked(self._popular_rows(user, count), POPULAR)

    def _from_head(self, served: ServedSide, device: bytes, count: int, *, now: bool) -> _Ranked:
        found = self.head_scores(device, served, now=now)
        # An item with no report but "missing" is known to the item side alone.
        found = found._replace(allowed=found.allowed & (self._head_rows >= 0))
        slots = top_slots(found.scores, count, found.allowed)
        return _Ranked(
            self._head_rows[slots], found.basis, reasons_for(served, found, slots, now=now)
        )

    def known(self, device: bytes) -> bool:
        """Return whether the state holds a report of a device."""
        halves = np.frombuffer(device, "<u8").astype(np.uint64).reshape(1, 2)
        return bool(self.replica.marks.find(halves)[0] > 0)

    def _filter(self, user: int) -> RowFilter:
        return lambda rows: self._allowed(user, self.replica.items.keys[rows])

    def _allowed(self, user: int, items: NDArray[np.uint64]) -> NDArray[np.bool_]:
        seen = self.replica.seen.test_many(np.full(len(items), user, np.uint64), items)
        return ~seen & ~self.catalogue.withdrawn(items)

    def _popular_rows(self, user: int, count: int) -> Rows:
        return self._popular.best(count, self._filter(user), self.replica.cut)

    def _fallback_rows(self, user: int, count: int) -> Rows:
        """Return up to `count` popular items, ordered by popularity x predicted rating."""
        rows = self._popular_rows(user, count)
        items = self.replica.items.keys[rows]
        ratings = self.replica.learner.predict_many(np.full(len(items), user, np.uint64), items)
        counts = self.replica.items.reports[rows]
        scores = fallback(counts.astype(np.float32), ratings.astype(np.float32))
        return rows[np.argsort(-scores, kind="stable")]


def reasons_for(
    served: ServedSide, found: HeadScores, listed: NDArray[np.intp], *, now: bool
) -> tuple[int | None, ...]:
    """Return for each slot of a list (t,) the key of the rated item that contributes most, None
    where none does; empty where none is known."""
    if served.channel is not None or not len(found.history.slots):
        return ()
    first = reasons_of(served.side, found.history, listed, now=now).first()
    keys = served.side.keys
    return tuple(int(keys[slot]) if slot >= 0 else None for slot in first)
