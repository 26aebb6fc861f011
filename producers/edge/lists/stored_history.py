"""What a user of the site has done, as a device's clean history: each item once, oldest first.

    stars of an item   the newest explicit ones, else 3 + 2 min(1, sum of the parts of a like)
    its place          by its newest event
    seen               every item of any event, those that only mark it included

`Histories` keeps what was read: a list then reads the number of rows and what is new. Rows that are
gone, or older than one before them, make it read all again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, func, select

from producers.edge.store.database import Database
from producers.edge.store.store_tables import accounts, feedback
from producers.ranking.clean_history import RatedItem
from stream_app import wire

MIDDLE, SPAN = 3.0, 2.0  # stars of no like at all, and what a whole like adds
MOST_KEPT = 200_000  # items of all users in memory
_DAY_MS = 86_400_000

_rows = (
    select(
        feedback.c.number, feedback.c.item, feedback.c.stars, feedback.c.likes, feedback.c.at
    )
    .where(feedback.c.account == bindparam("account"), feedback.c.number > bindparam("after"))
    .order_by(feedback.c.at, feedback.c.number)
)  # fmt: skip
_account = (
    select(
        accounts.c.number, accounts.c.device, func.count(feedback.c.number),
        func.max(feedback.c.number),
    )
    .select_from(accounts.outerjoin(feedback, feedback.c.account == accounts.c.number))
    .where(accounts.c.user == bindparam("user"), accounts.c.removed.is_(None))
    .group_by(accounts.c.number, accounts.c.device)
)  # fmt: skip


class Done(NamedTuple):
    """What was done: ratings and likes, oldest first, each item once; the newest time of every item
    that was seen, in milliseconds; and the account with its pseudonym, 0 and empty for a user who
    has none."""

    rated: list[RatedItem]
    seen: dict[str, int]
    account: int = 0
    device: bytes = b""


def history(connection: Connection, account: int) -> list[RatedItem]:
    """Return the clean history of an account, oldest first by the newest event of each item."""
    found = _Known()
    found.learn(_read(connection, account, 0))
    return list(found.rated.values())


def _read(connection: Connection, account: int, after: int) -> list[Any]:
    """Return the rows of an account above a number, oldest first."""
    return list(connection.execute(_rows, {"account": account, "after": after}))


class _Known:
    """What is known of one account: `count` rows up to `number`, the newest at `at`."""

    def __init__(self) -> None:
        self.rated: dict[str, RatedItem] = {}
        self.seen: dict[str, int] = {}
        self._explicit: dict[str, float] = {}
        self._parts: dict[str, float] = {}
        self.count, self.number, self.at = 0, 0, 0

    def learn(self, rows: Iterable[Any]) -> None:
        """Learn rows that are newer than all before."""
        for number, item, stars, likes, at in rows:
            self.count, self.number, self.at = self.count + 1, max(self.number, number), at
            self.seen[item] = at
            if stars is not None:
                self._explicit[item] = stars
            elif likes is not None:
                self._parts[item] = self._parts.get(item, 0.0) + likes
            self.rated.pop(item, None)  # the newest event decides the place
            found = stars_of(self._explicit.get(item), self._parts.get(item))
            if found is not None:
                self.rated[item] = RatedItem(*named(item), found, at // _DAY_MS, at // 1000)


class Histories:
    """What users have done, for any thread; the users that were asked for last are kept."""

    def __init__(self, database: Database, most: int = MOST_KEPT) -> None:
        self._database, self._most = database, most
        self._known: OrderedDict[int, _Known] = OrderedDict()
        self._items, self._learning = 0, threading.Lock()

    def done_by(self, user: str) -> Done:
        """Return what a user, by the one form of the id, has done."""
        with self._database.reading() as connection:
            found = connection.execute(_account, {"user": user}).first()
            if found is None:
                return Done([], {})
            account, device, *newest = found
            known, rows = self._known.get(account) or _Known(), list[Any]()
            if [known.count, known.number or None] != newest:
                rows = _read(connection, account, known.number)
                if not _follow(rows, known, newest[0]):
                    known, rows = _Known(), _read(connection, account, 0)
        with self._learning:
            self._learn(account, known, rows)
            return Done(list(known.rated.values()), dict(known.seen), account, bytes(device))

    def _learn(self, account: int, known: _Known, rows: list[Any]) -> None:
        """Learn what another thread has not yet, and keep it."""
        before = self._known.pop(account, None)
        self._items -= 0 if before is None else len(before.seen)
        known.learn([row for row in rows if row[0] > known.number])
        self._known[account] = known
        self._items += len(known.seen)
        while self._items > self._most and len(self._known) > 1:
            self._items -= len(self._known.popitem(last=False)[1].seen)


def _follow(rows: list[Any], known: _Known, count: int) -> bool:
    """Return whether these rows are all that is new, and none is older than what is known."""
    return known.count + len(rows) == count and all(row[4] >= known.at for row in rows)


def stars_of(stars: float | None, parts: float | None) -> float | None:
    """Return the stars of an item: explicit ones, or those of the parts of a like; None where there
    are neither."""
    if stars is not None:
        return stars
    return None if parts is None else MIDDLE + SPAN * min(1.0, max(0.0, parts))


@lru_cache(maxsize=200_000)
def named(text: str) -> tuple[wire.Item, int]:
    """Return an item on the wire and its key, from its text in the store."""
    item = wire.parse_item(text)
    return item, wire.key(item)
