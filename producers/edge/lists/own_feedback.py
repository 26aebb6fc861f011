"""Statistics of the edge's own feedback, read from the store as it grows: cached, seconds old.

    popular   mean of an item's share of all likes and of its share of the recent ones, which halve
              in POPULAR_DAYS; a rating that is no like counts .2, a part of a like itself
    pairs     what people like together                                    (`own_pairs.py`)
    likes     recent ones, and offers in lists that were counted, halved in NEW_DAYS: for new items

An item is liked from 3.8 stars on (`history.stars_of`). Ages are before the newest event of the
first read, and negative later, so that an import of old events counts. New rows are read by their
numbers; all of the newest WINDOW rows are read anew every hour: after users were deleted, and for
rows that were committed late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select

from producers.edge.lists.item_index import ItemIndex, Places
from producers.edge.lists.own_pairs import MOST_ITEMS, OwnPairs
from producers.edge.lists.picking import NO_SCORES, Scores
from producers.edge.lists.stored_history import MIDDLE, SPAN
from producers.edge.store.database import Database
from producers.edge.store.store_tables import feedback, impressions, offers
from producers.ranking.ranker import LIKED_STARS
from stream_app.ranking.pair_counts import RATED

POPULAR_DAYS, PAIR_DAYS, NEW_DAYS = 14.0, 180.0, 30.0
WINDOW = 500_000  # rows
DISLIKED = -1.0
_MOST_LIKES, _MOST_PARTS, _MOST_PEOPLE = 50, 100, 200_000
_PAGE, _BREATH = 1000, 100
_DAY_MS = 86_400_000.0
_LATE_MS = 5_000  # lists of this age are in the store
_MODELS_MOST = 100
_FREE = 256  # rows of pairs for items to come

Breathe = Callable[[], object]


class _Person:
    """Items that somebody likes, the newest last, and the part of a like that each item has:
    DISLIKED after stars that are none."""

    __slots__ = ("liked", "parts")

    def __init__(self) -> None:
        self.liked, self.parts = list[int](), dict[int, float]()

    def learn(self, place: int, stars: float | None, likes: float) -> tuple[float, float]:
        """Return the part of a like that an item had before and has now."""
        before = self.parts.pop(place, 1.0 if place in self.liked else 0.0)
        after = before
        if stars is not None:
            after = 1.0 if stars >= LIKED_STARS else DISLIKED
        elif before != DISLIKED:
            after = min(before + likes, 1.0)
        self.parts[place] = after
        if len(self.parts) > _MOST_PARTS:
            del self.parts[next(iter(self.parts))]
        return before, after


class OwnFeedback:
    """The statistics, as of the last `read`, which one thread calls."""

    def __init__(self, database: Database, index: ItemIndex) -> None:
        self._database, self._index = database, index
        self.pairs = OwnPairs()
        self.popular = NO_SCORES
        self._newest_ms, self._read_ms = 0, 0
        self._number, self._offered_to = 0, 0
        self._people: dict[int, _Person] = {}
        self._columns = np.zeros((4, 0))  # total, recent, likes of new items, offers

    def read(self, now_ms: int, breathe: Breathe = lambda: None) -> None:
        """Read what is new; `breathe` is called between short steps, and lets other threads go."""
        self._read_ms = self._read_ms or now_ms
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
        self._rank()

    def anew(self, now_ms: int, breathe: Breathe = lambda: None) -> OwnFeedback:
        """Return statistics of the newest rows, read from the store; the items that are liked most
        now have the rows of pairs."""
        found = OwnFeedback(self._database, self._index)
        for place in self.popular.places[: MOST_ITEMS - _FREE].tolist():
            found.pairs.add(place, (), 0.0)
        found.read(now_ms, breathe)
        return found

    def new_items(self, places: Places) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the decayed likes and offers of items."""
        columns = self._columns
        known = places < columns.shape[1]
        found = np.zeros((2, len(places)))
        found[:, known] = columns[2:, places[known]]
        return found[0], found[1]

    def _page(self) -> Sequence[Any]:
        columns = feedback.c
        wanted = (
            select(columns.number, columns.account, columns.item, columns.stars, columns.likes,
                   columns.at)
            .where(columns.number > self._number)
            .order_by(columns.number)
            .limit(_PAGE)
        )  # fmt: skip
        with self._database.reading() as connection:
            return connection.execute(wanted).all()

    def _learn(self, row: Any) -> None:
        self._number, account, item, stars, likes, at = row
        place = self._index.place(item)
        if stars is None and likes is None:
            return
        person = self._people.pop(account, None) or _Person()
        self._people[account] = person
        if len(self._people) > _MOST_PEOPLE:
            del self._people[next(iter(self._people))]
        before, after = person.learn(place, stars, likes or 0.0)
        gain = _worth(after) - _worth(before)
        days = (self._newest_ms - at) / _DAY_MS
        if gain > 0:
            columns = self._grown(place)
            columns[0, place] += gain
            columns[1, place] += gain * 0.5 ** (days / POPULAR_DAYS)
            columns[2, place] += gain * 0.5 ** ((self._read_ms - at) / _DAY_MS / NEW_DAYS)
        self._like(person, place, _is_like(after), 0.5 ** (days / PAIR_DAYS))

    def _like(self, person: _Person, place: int, liked: bool, weight: float) -> None:
        """Count an item's pairs when it becomes liked, and take them back when it no longer is."""
        before = place in person.liked
        if liked and not before:
            self.pairs.add(place, person.liked, weight)
            person.liked.append(place)
            del person.liked[:-_MOST_LIKES]
        elif before and not liked:
            person.liked.remove(place)
            self.pairs.add(place, person.liked, -weight)

    def _read_offers(self, now_ms: int) -> None:
        """Count the offers of lists that were shown since the last time."""
        until = now_ms - _LATE_MS
        since = max(self._offered_to, int(until - 3 * NEW_DAYS * _DAY_MS))
        if until <= since:
            return
        with self._database.reading() as connection:
            models = connection.execute(select(impressions.c.model).distinct()).scalars()
            wanted = (  # by model, as the index is
                select(offers.c.item, func.max(impressions.c.at), func.count())
                .join(impressions, impressions.c.list == offers.c.list)
                .where(impressions.c.model.in_(models.fetchmany(_MODELS_MOST)))
                .where(impressions.c.at > since, impressions.c.at <= until)
                .group_by(offers.c.item, impressions.c.at // int(_DAY_MS))
            )
            counts = connection.execute(wanted).all()
        for item, at, count in counts:
            place = self._index.place(item)
            days = (self._read_ms - at) / _DAY_MS
            self._grown(place)[3, place] += count * 0.5 ** (days / NEW_DAYS)
        self._offered_to = until

    def _rank(self) -> None:
        total, recent = self._columns[0], self._columns[1]
        share = total / max(total.sum(), 1e-9) + recent / max(recent.sum(), 1e-9)
        liked = np.flatnonzero(share > 0)
        order = liked[np.argsort(-share[liked], kind="stable")]
        self.popular = Scores(order, share[order] / 2, falling=True)

    def _grown(self, place: int) -> NDArray[np.float64]:
        if place >= self._columns.shape[1]:
            more = np.zeros((4, max(place + 1, len(self._index)) - self._columns.shape[1] + 256))
            self._columns = np.concatenate((self._columns, more), axis=1)
        return self._columns


def _worth(part: float) -> float:
    """Return what a part of a like counts for popularity."""
    return RATED if part == DISLIKED else part


def _is_like(part: float) -> bool:
    return MIDDLE + SPAN * part >= LIKED_STARS
