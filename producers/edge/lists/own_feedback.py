"""Statistics of the edge's own feedback, read from the store as it grows: cached, seconds old.

    popular   mean of an item's share of all likes and of its share of the recent ones, which halve
              in POPULAR_DAYS; a rating that is no like counts .2, a part of a like itself
    pairs     what people like together: the model "own"
                  C_ij  people who like i and j, c_i  people who like i, halved in PAIR_DAYS
                  score_j = sum_i x_i B_ij            B_ij = C_ij / ((c_i + S) (c_j + S)^A)
    chances   of new items, by Thompson sampling (Thompson 1933; Chapelle and Li 2011):

                  theta_j ~ Beta(K r + L_j, K (1 - r) + max(N_j - L_j, 0)),   the largest theta

              L_j: likes, N_j: offers in lists that were counted, both halved in NEW_DAYS; r: likes
              per offer of all new items, of which K count as known before

B is the conditional probability of j after i, shrunk, and damped for popular j; x_i is 1 for a like
and .2 for another rating. Pairs of few people are in it, so it makes lists of known users alone: a
first list before any public table, and an arm to compare with.

    visitors  see items, and pairs, that at least `least_people` people stand behind: people are
              counted apart from the sums, which age, and leave the count with what they take back

It is a reduction and no guarantee: who sees lists with four people behind a pair, and then with
five, or is four of them by accounts of his own, learns of the fifth; and one person's event may
move an item that others stand behind.

An item is liked from 3.8 stars on (`stored_history.py`). Ages are before the newest event of the
first read, and negative later, so that an import of old events counts. New rows are read by their
numbers; all of the newest WINDOW rows are read anew every hour, for rows that were committed late,
and after a user was deleted, until when no list shows any of it (`Models.own`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select

from producers.edge.lists.item_index import ItemIndex, Places
from producers.edge.lists.newest_tables import Shelf
from producers.edge.lists.picking import Ranked, by_score
from producers.edge.lists.stored_history import MIDDLE, SPAN
from producers.edge.store.database import Database
from producers.edge.store.store_tables import DELETIONS, feedback, impressions, offers
from producers.ranking.ranker import LIKED_STARS, Ranker
from stream_app.ranking.ease import LINKS_A_ROW, prune
from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.pair_counts import RATED
from stream_app.ranking.scores import DEFAULT

POPULAR_DAYS, PAIR_DAYS, NEW_DAYS = 14.0, 180.0, 30.0
WINDOW = 500_000  # rows
MOST_ITEMS, SHRINK, DAMPING = 4096, 20.0, 0.4
KNOWN_BEFORE, UNKNOWN_RATE = 10.0, 0.05  # offers of a new item, and likes per offer of those
_DISLIKED = -1.0  # the part of a like after stars that are none
_MOST_LIKES, _MOST_PARTS, _MOST_PEOPLE = 50, 100, 200_000
_PAGE, _BREATH = 1000, 100
_DAY_MS = 86_400_000.0
_FIRST_SIZE, _ROWS = 64, 128
_LINKS_ALONE = (DEFAULT == 1).astype(np.float32)
_LATE_MS = 5_000  # lists of this age are in the store
_FREE = 256  # rows of pairs for items to come
_NEW_LIKES = 0.01  # as a share of all: the pairs are looked at again

Column = NDArray[np.float64]
Breathe = Callable[[], object]
_NOTHING = np.zeros(0, np.intp)


class Own(NamedTuple):
    """What lists show of the edge's own feedback: popular items, items by their pairs, new ones
    with the parameters of their chances; and by place whether enough people stand behind an item,
    None if any is shown, as to a known user."""

    popular: Ranked = Ranked(_NOTHING, np.zeros(0), "popular")
    shelf: Shelf | None = None
    new: tuple[Places, Any, Any] = (_NOTHING, np.zeros(0), np.zeros(0))
    shown: NDArray[np.bool_] | None = None


class OwnPairs:
    """Counts of what is liked together, of the items met first or, after all was counted anew, of
    those liked most; at most so many. `people` like both of two items, or one (the diagonal)."""

    def __init__(self, most: int = MOST_ITEMS) -> None:
        self._most = most
        self._slots: dict[int, int] = {}
        self._pairs, self._likes = np.zeros((0, 0), np.float32), np.zeros(0, np.float32)
        self._people = np.zeros((0, 0), np.int32)

    @property
    def places(self) -> Places:
        """The places of the items, in the order of the side."""
        return np.array(list(self._slots), np.intp)

    def add(self, place: int, others: Sequence[int], weight: float) -> None:
        """Count a like of an item by somebody who likes others; a negative weight takes it back."""
        if place not in self._slots:
            if len(self._slots) >= self._most:
                return
            self._slots[place] = len(self._slots)
            if (grown := len(self._slots) - len(self._likes)) > 0:
                more = min(max(len(self._likes), _FIRST_SIZE), self._most - len(self._likes))
                self._likes = np.pad(self._likes, (0, max(more, grown)))
                self._pairs = np.pad(self._pairs, (0, max(more, grown)))
                self._people = np.pad(self._people, (0, max(more, grown)))
        own, rows = self._slots[place], [self._slots[n] for n in others if n in self._slots]
        self._likes[own] = max(self._likes[own] + weight, 0)
        self._pairs[own, rows] = np.maximum(self._pairs[own, rows] + np.float32(weight), 0)
        self._pairs[rows, own] = self._pairs[own, rows]

    def count(self, place: int, others: Sequence[int], people: int) -> NDArray[np.int32]:
        """Count people, one or minus one, who like an item and others; return the new counts."""
        if place not in self._slots:
            return np.zeros(0, np.int32)
        rows = [self._slots[n] for n in (place, *others) if n in self._slots]
        self._people[rows[0], rows] += people
        self._people[rows[1:], rows[0]] += people
        return self._people[rows[0], rows]

    def liked_by(self, least: int) -> NDArray[np.intp]:
        """Return the rows of the items that at least so many people like."""
        return np.flatnonzero(self._people.diagonal()[: len(self._slots)] >= least)

    def side(
        self, keys: NDArray[np.uint64], kept: NDArray[np.intp], least: int, breathe: Breathe
    ) -> ItemSide:
        """Return the links that score what goes together, of the items in `kept` rows, which have
        these keys (n,): links of at least so many people."""
        items = len(kept)
        likes = self._likes[kept] + np.float32(SHRINK)
        damped, parts = likes ** np.float32(DAMPING), list[Any]()
        for start in range(0, max(items, 1), _ROWS):
            rows = slice(start, min(start + _ROWS, items))
            both = np.ix_(kept[rows], kept)
            table = self._pairs[both] * (self._people[both] >= least)
            table /= likes[rows, None] * damped
            parts.append(prune(table.astype(np.float32, copy=False), LINKS_A_ROW))
            breathe()
        targets, weights = map(np.concatenate, zip(*parts, strict=True))
        ones, none = np.ones(items, np.float32), np.zeros((items, 0), np.float32)
        nothing = none.astype(np.uint16)
        return ItemSide(
            0, keys, ones, ones, ones, ones, targets, weights,
            nothing, none, nothing, none, none, _LINKS_ALONE, _LINKS_ALONE,
        )  # fmt: skip


class OwnFeedback:
    """The statistics, as of the last `read`, which one thread calls: `popular` and `shelf` of all
    people, and with the suffix `_shown` those that visitors see. `deletions`: the tag that the
    store had before the first row was read."""

    def __init__(self, database: Database, index: ItemIndex, least_people: int = 1) -> None:
        self._database, self._index, self._least = database, index, least_people
        self.deletions: bytes | None = None
        self._pairs, self._liked, self._paired = OwnPairs(), 0, 0
        self.popular = self.popular_shown = Own().popular
        self.shelf: Shelf | None = None
        self.shelf_shown: Shelf | None = None
        self._fewer = False  # of a pair, or an item, than visitors may see
        self._newest_ms, self._read_ms, self._number, self._offered_to = 0, 0, 0, 0
        self._people: dict[int, dict[int, float]] = {}  # the part of a like of each item
        self._columns = np.zeros((5, 0))  # total, recent, likes of new items, offers, people

    def read(self, now_ms: int, breathe: Breathe = lambda: None) -> None:
        """Read what is new; `breathe` is called between short steps, and lets other threads go."""
        self._read_ms = self._read_ms or now_ms
        if self.deletions is None:
            with self._database.reading() as connection:
                self.deletions = self._database.tag(connection, DELETIONS)
        if not self._newest_ms:
            wanted = select(func.max(feedback.c.number), func.max(feedback.c.at))
            with self._database.reading() as connection:
                number, at = connection.execute(wanted).one()
            if number is not None:
                self._number, self._newest_ms = max(number - WINDOW, 0), min(at, now_ms)
        while rows := self._page():
            for start in range(0, len(rows), _BREATH):
                for row in rows[start : start + _BREATH]:
                    self._learn(row)
                breathe()
        self._read_offers(now_ms)
        self.popular, self.popular_shown = self._popular(0), self._popular(self._least)
        grown = self._liked - self._paired > _NEW_LIKES * self._paired
        if grown or self._fewer:
            self.shelf_shown, self._fewer = self._shelf(self._least, breathe), False
        if grown:
            self.shelf, self._paired = self._shelf(0, breathe), self._liked

    def own(self, new: Places, *, visitor: bool) -> Own:
        """Return what lists show, with these items as new ones."""
        if not visitor:
            return Own(self.popular, self.shelf, (new, *self.chances(new)))
        chances, shown = self.chances(new, self._least), self._columns[4] >= self._least
        return Own(self.popular_shown, self.shelf_shown, (new, *chances), shown)

    def _popular(self, least: int) -> Ranked:
        places = np.flatnonzero(self._columns[4] >= least)  # no other item has a part in the sums
        total, recent = self._columns[:2, places]
        share = total / max(total.sum(), 1e-9) + recent / max(recent.sum(), 1e-9)
        return by_score(places[share > 0], share[share > 0] / 2, "popular")

    def _shelf(self, least: int, breathe: Breathe) -> Shelf:
        kept = self._pairs.liked_by(least)
        places = self._pairs.places[kept]
        keys = np.array([self._index.keys[place] for place in places.tolist()], np.uint64)
        side = self._pairs.side(keys, kept, least, breathe)
        return Shelf(Ranker(side), places, self._index, "pairs")

    def anew(self, now_ms: int, breathe: Breathe = lambda: None) -> OwnFeedback:
        """Return statistics of the newest rows, read from the store; the items that are liked most
        now have the rows of pairs."""
        found = OwnFeedback(self._database, self._index, self._least)
        for place in self.popular.places[: MOST_ITEMS - _FREE].tolist():
            found._pairs.add(place, (), 0.0)
        found.read(now_ms, breathe)
        return found

    def chances(self, places: Places, least: int = 0) -> tuple[Column, Column]:
        """Return the parameters of the posterior of each new item (n,), hits and misses, by what is
        known of those that at least so many people stand behind."""
        likes, offered, people = self._grown(int(places.max(initial=0)))[2:, places]
        likes, offered = likes * (people >= least), offered * (people >= least)
        known = np.minimum(likes, offered).sum() + KNOWN_BEFORE * UNKNOWN_RATE
        hits = KNOWN_BEFORE * known / (offered.sum() + KNOWN_BEFORE)
        return hits + likes, KNOWN_BEFORE - hits + np.maximum(offered - likes, 0)

    def _page(self) -> Sequence[Any]:
        names = ("number", "account", "item", "stars", "likes", "at")
        wanted = select(*(feedback.c[name] for name in names)).limit(_PAGE)
        wanted = wanted.where(feedback.c.number > self._number).order_by(feedback.c.number)
        with self._database.reading() as connection:
            return connection.execute(wanted).all()

    def _learn(self, row: Any) -> None:
        self._number, account, item, stars, likes, at = row
        place = self._index.place(item)
        if stars is None and likes is None:
            return
        parts = self._people[account] = self._people.pop(account, {})
        before = after = parts.pop(place, 0.0)
        others = [each for each, part in parts.items() if _is_like(part)]
        if stars is not None:
            after = 1.0 if stars >= LIKED_STARS else _DISLIKED
        elif likes is not None and before != _DISLIKED:
            after = min(before + likes, 1.0)
        parts[place] = after
        self._grown(place)[4, place] += (_worth(after) > 0) - (_worth(before) > 0)
        days = (self._newest_ms - at) / _DAY_MS
        gain = _worth(after) - _worth(before)
        if gain > 0:
            new_days = (self._read_ms - at) / _DAY_MS
            ages = np.array([0, days / POPULAR_DAYS, new_days / NEW_DAYS])
            self._grown(place)[:3, place] += gain * 0.5**ages
        if sign := _is_like(after) - _is_like(before):
            self._pairs.add(place, others[-_MOST_LIKES:], sign * 0.5 ** (days / PAIR_DAYS))
            people = self._pairs.count(place, others, sign)
            self._fewer |= sign < 0 and bool((people == self._least - 1).any())
            self._liked += 1
        if len(parts) > _MOST_PARTS:
            self._leave(parts)
        if len(self._people) > _MOST_PEOPLE:
            oldest = self._people.pop(next(iter(self._people)))
            while oldest:
                self._leave(oldest)

    def _leave(self, parts: dict[int, float]) -> None:
        """Forget a person's oldest item, whose event was long ago, and no longer count him for it:
        he would be counted twice if he came back."""
        place = next(iter(parts))
        part = parts.pop(place)
        self._columns[4, place] -= _worth(part) > 0
        if _is_like(part):
            self._pairs.count(place, [each for each in parts if _is_like(parts[each])], -1)

    def _read_offers(self, now_ms: int) -> None:
        """Count the offers of lists that were shown since the last time."""
        until = now_ms - _LATE_MS
        since = max(self._offered_to, int(until - 3 * NEW_DAYS * _DAY_MS))
        if until <= since:
            return
        wanted = (
            select(offers.c.item, func.max(impressions.c.at), func.count())
            .join(impressions, impressions.c.list == offers.c.list)
            .where(impressions.c.at > since, impressions.c.at <= until)
            .group_by(offers.c.item, impressions.c.at // int(_DAY_MS))
        )
        with self._database.reading() as connection:
            counts = connection.execute(wanted).all()
        for item, at, count in counts:
            place, days = self._index.place(item), (self._read_ms - at) / _DAY_MS
            self._grown(place)[3, place] += count * 0.5 ** (days / NEW_DAYS)
        self._offered_to = until

    def _grown(self, place: int) -> Column:
        if place >= self._columns.shape[1]:
            more = max(place + 1, len(self._index)) - self._columns.shape[1] + 256
            self._columns = np.pad(self._columns, ((0, 0), (0, more)))
        return self._columns


def _worth(part: float) -> float:
    """Return what a part of a like counts for popularity."""
    return RATED if part == _DISLIKED else part


def _is_like(part: float) -> bool:
    return MIDDLE + SPAN * part >= LIKED_STARS
