"""What a user of the site has done, as a device's clean history: each item once, oldest first.

    stars of an item   the newest explicit ones, else 3 + 2 min(1, sum of the parts of a like)
    its place          by its newest event
    seen               every item of any event, those that only mark it included

What was read of a user is kept while the number of rows and the newest one are the same, and nobody
was deleted: SQLite gives the number of a deleted row again.
"""

from __future__ import annotations

from math import isnan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, func, select

from producers.edge.lists.item_index import named
from producers.edge.store.database import Database
from producers.edge.store.store_tables import DELETIONS, accounts, feedback, site
from producers.ranking.clean_history import RatedItem
from producers.ranking.ranker import LIKED_STARS, Rated

MIDDLE, SPAN = 3.0, 2.0  # stars of no like at all, and what a whole like adds
MOST_KEPT = 2_000_000  # items of all users in memory, 25 bytes each
_DAY_MS = 86_400_000

_rows = (
    select(feedback.c.item, feedback.c.stars, feedback.c.likes, feedback.c.at)
    .where(feedback.c.account == bindparam("account"))
    .order_by(feedback.c.at, feedback.c.number)
)
_account = (
    select(
        accounts.c.number, accounts.c.device, func.count(feedback.c.number),
        func.max(feedback.c.number),
        select(site.c.value).where(site.c.name == DELETIONS).scalar_subquery(),
    )
    .select_from(accounts.outerjoin(feedback, feedback.c.account == accounts.c.number))
    .where(accounts.c.user == bindparam("user"), accounts.c.removed.is_(None))
    .group_by(accounts.c.number, accounts.c.device)
)  # fmt: skip


class Done(NamedTuple):
    """What was done, items by key (m,), oldest first by their newest event, each once: stars, NaN
    where they are not known; the newest time in milliseconds; whether it counts as rated, and not
    only as seen; the account with its pseudonym, 0 and empty for a user who has none; and the tag
    of deletions that the store had."""

    keys: NDArray[np.uint64]
    raw_stars: NDArray[np.float64]
    at: NDArray[np.int64]
    counts: NDArray[np.bool_]
    account: int = 0
    device: bytes = b""
    deletions: bytes = b""

    @property
    def rated(self) -> Rated:
        """What counts, as a ranker takes it."""
        raw_stars, at = self.raw_stars[self.counts], self.at[self.counts]
        likes = np.isnan(raw_stars) | (raw_stars >= LIKED_STARS)
        return Rated(self.keys[self.counts], likes, at // _DAY_MS, at // 1000)

    @property
    def rows(self) -> list[RatedItem]:
        """The same, one by one; an item is named by its key."""
        rows = zip(*(column[self.counts].tolist() for column in self[:3]), strict=True)
        return [
            RatedItem(key, key, None if isnan(given) else given, at // _DAY_MS, at // 1000)
            for key, given, at in rows
        ]


NOTHING = Done(np.zeros(0, np.uint64), np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.bool_))


def history(connection: Connection, account: int) -> list[RatedItem]:
    """Return the clean history of an account, oldest first by the newest event of each item."""
    return [
        RatedItem(*named(item), raw_stars, at // _DAY_MS, at // 1000)
        for item, (at, raw_stars) in _newest(connection, account).items()
        if raw_stars is not None
    ]


def _newest(connection: Connection, account: int) -> dict[str, tuple[int, float | None]]:
    """Return of each item the newest time and the stars, oldest first; None: only seen."""
    seen, stars, parts = dict[str, int](), dict[str, float](), dict[str, float]()
    for item, given, likes, at in connection.execute(_rows, {"account": account}).all():
        seen.pop(item, None)  # the newest event decides the place
        seen[item] = at
        if given is not None:
            stars[item] = given
        elif likes is not None:
            parts[item] = parts.get(item, 0.0) + likes
    liked = {item: MIDDLE + SPAN * min(1.0, max(0.0, part)) for item, part in parts.items()}
    found = liked | stars
    return {item: (at, found.get(item)) for item, at in seen.items()}


def _read(connection: Connection, account: int, device: bytes, deletions: bytes) -> Done:
    found = _newest(connection, account)
    keys = np.array([named(item)[1] for item in found], np.uint64)
    at = np.array([at for at, _ in found.values()], np.int64)
    raw_stars = np.array([given for _, given in found.values()], np.float64)  # None: NaN
    return Done(keys, raw_stars, at, ~np.isnan(raw_stars), account, device, deletions)


class Histories:
    """What users have done, for any thread, which changes nothing of it."""

    def __init__(self, database: Database, most: int = MOST_KEPT) -> None:
        self._database, self._most, self._items = database, most, 0
        self._kept: dict[int, tuple[tuple[Any, ...], Done]] = {}

    def nothing(self) -> Done:
        """Return what a visitor has done, whom the store does not know."""
        with self._database.reading() as connection:
            return NOTHING._replace(deletions=self._database.tag(connection, DELETIONS))

    def done_by(self, user: str) -> Done:
        """Return what a user has done."""
        with self._database.reading() as connection:
            found = connection.execute(_account, {"user": user}).first()
            if found is None:
                return NOTHING._replace(deletions=self._database.tag(connection, DELETIONS))
            account, device, *newest = found
            rows, done = self._kept.get(account, (None, None))
            if done is None or rows != tuple(newest):
                done = _read(connection, account, bytes(device), bytes(newest[-1] or b""))
                self._items += len(done.keys)
                if self._items > self._most:
                    self._kept, self._items = {}, len(done.keys)
                self._kept[account] = (tuple(newest), done)
            return done
