"""What a user of the site has done, as a device's clean history: each item once, oldest first.

    stars of an item   the newest explicit ones, else 3 + 2 min(1, sum of the parts of a like)
    its place          by its newest event
    seen               every item of any event, those that only mark it included

What was read of a user is kept while the number of rows and the newest one are the same.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, bindparam, func, select

from producers.edge.lists.item_index import named
from producers.edge.store.database import Database
from producers.edge.store.store_tables import accounts, feedback
from producers.ranking.clean_history import RatedItem

MIDDLE, SPAN = 3.0, 2.0  # stars of no like at all, and what a whole like adds
MOST_KEPT = 200_000  # items of all users in memory
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
    return _read(connection, account).rated


def _read(connection: Connection, account: int, device: bytes = b"") -> Done:
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
    rated = [
        RatedItem(*named(item), found[item], at // _DAY_MS, at // 1000)
        for item, at in seen.items()
        if item in found
    ]
    return Done(rated, seen, account, device)


class Histories:
    """What users have done, for any thread, which changes nothing of it."""

    def __init__(self, database: Database, most: int = MOST_KEPT) -> None:
        self._database, self._most, self._items = database, most, 0
        self._kept: dict[int, tuple[tuple[int, int | None], Done]] = {}

    def done_by(self, user: str) -> Done:
        """Return what a user, by the one form of the id, has done."""
        with self._database.reading() as connection:
            found = connection.execute(_account, {"user": user}).first()
            if found is None:
                return Done([], {})
            account, device, *newest = found
            rows, done = self._kept.get(account, (None, None))
            if done is None or rows != tuple(newest):
                done = _read(connection, account, bytes(device))
                self._items += len(done.seen)
                if self._items > self._most:
                    self._kept, self._items = {}, len(done.seen)
                self._kept[account] = (tuple(newest), done)
            return done
