"""Events in the store: one transaction for their accounts, their rows and the lists they came from.

    accounts    a row for each user, made at his first event: pseudonym, and the book it decides
    feedback    a row for each event whose token is new
    accounts.changed    number of the newest row that says more than "seen": there is something to
                        report while it is above `reported`
    offers      the item of a list, clicked or bought at the time of the first such event

The transaction holds the rows of its accounts, in one order, before it numbers feedback: of one
account, a later number is committed later, whichever edge writes it, so no row can appear behind
`reported`. What happened before a user was deleted stays deleted; a later event brings him back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import BigInteger, Connection, bindparam, case, null, select, update

from producers.edge.events.event import Event
from producers.edge.events.feedback_types import CLICKS, PURCHASES, FeedbackTypes
from producers.edge.store.book_log import BOOKS
from producers.edge.store.database import Database
from producers.edge.store.store_tables import accounts, feedback, offers
from producers.identities import Identities

MOST_ROWS = 10_000
"""In one transaction: databases bound the parameters of a statement."""


class FeedbackRows:
    """Writes events; for one thread. `signed`: as the server's `devices`."""

    def __init__(self, database: Database, types: FeedbackTypes, *, signed: bool) -> None:
        self._database, self._types = database, types
        self._signed = signed
        insertion = database.insertion(feedback).on_conflict_do_nothing()
        self._changed = _AccountsChanged(database)
        self._insertion = insertion.returning(feedback.c.token, feedback.c.number)

    def write(
        self, events: Sequence[Event], beside: Callable[[Connection], None] | None = None
    ) -> list[bool]:
        """Write at most `MOST_ROWS` events in one transaction, with what `beside` writes in it;
        return for each whether it is new.

        Raises `Unwritable`: nothing was written, unless the connection was lost in the commit;
        the same events written again change nothing then.
        """
        users = sorted({event.user for event in events})
        while True:
            with self._database.writing() as connection:
                held = self._held(connection, users)
                if len(held) == len(users):
                    new = self._inserted(connection, events, held)
                    if beside is not None:
                        beside(connection)
                    return new
            # In a transaction of its own: two edges would wait for each other's accounts.
            self._enrol([user for user in users if user not in held])

    def _held(self, connection: Connection, users: list[str]) -> dict[str, tuple[int, int | None]]:
        """Return number and deletion of the accounts that are there, whose rows are held."""
        wanted = (
            select(accounts.c.user, accounts.c.number, accounts.c.removed)
            .where(accounts.c.user.in_(users))
            .order_by(accounts.c.number)
            .with_for_update(key_share=True)  # a report may read them meanwhile
        )
        found = {row.user: (row.number, row.removed) for row in connection.execute(wanted)}
        return found | self._held_nameless(connection, [u for u in users if u not in found])

    def _held_nameless(
        self, connection: Connection, users: list[str]
    ) -> dict[str, tuple[int, int | None]]:
        """Return the accounts of users who were deleted: the name is gone, the pseudonym is not."""
        devices = {device: user for user, device in self._devices(users)}
        wanted = (
            select(accounts.c.device, accounts.c.number, accounts.c.removed)
            .where(accounts.c.device.in_(devices), accounts.c.removed.is_not(None))
            .order_by(accounts.c.number)
            .with_for_update()
        )
        if not devices:
            return {}
        return {
            devices[bytes(row.device)]: (row.number, row.removed)
            for row in connection.execute(wanted)
        }

    def _enrol(self, users: list[str]) -> None:
        now = int(time.time() * 1000)
        rows = [
            {
                "user": user,
                "device": device,
                "book": int.from_bytes(device[:2], "big") % BOOKS,
                "created": now,
                "changed": 0,
                "reported": 0,
            }
            for user, device in self._devices(users)
        ]
        with self._database.writing() as connection:
            self._database.add(connection, accounts, rows)

    def _devices(self, users: list[str]) -> list[tuple[str, bytes]]:
        # For these users alone: it keeps the key pairs of signed devices.
        identities = Identities(self._database.key, signed=self._signed)
        return [(user, identities.pseudonym(user)) for user in users]

    def _inserted(
        self,
        connection: Connection,
        events: Sequence[Event],
        held: dict[str, tuple[int, int | None]],
    ) -> list[bool]:
        tokens = [event.token for event in events]
        rows: dict[bytes, dict[str, Any]] = {}
        first: dict[bytes, int] = {}
        for place, (token, event) in enumerate(zip(tokens, events, strict=True)):
            account, removed = held[event.user]
            if token in first or (removed is not None and event.at <= removed):
                continue
            stars, likes = self._types.worth(event.type, event.value)
            first[token] = place
            rows[token] = {
                "account": account,
                "item": event.item,
                "type": event.type,
                "value": event.value,
                "stars": stars,
                "likes": likes,
                "at": event.at,
                "token": token,
            }
        if not rows:
            return [False] * len(events)
        found = connection.execute(self._insertion, list(rows.values()))
        numbers = {bytes(row.token): row.number for row in found}
        self._changed.execute(connection, _newest(numbers, rows))
        written = {rows[token]["account"] for token in numbers}
        _name_again(connection, held, written)
        fresh = {first[token] for token in numbers}
        new = [place in fresh for place in range(len(events))]
        _mark_offers(connection, [event for place, event in enumerate(events) if new[place]])
        return new


def _newest(numbers: dict[bytes, int], rows: dict[bytes, dict[str, Any]]) -> dict[int, int]:
    """Return by account the number of its newest row that can be reported, 0 where none can."""
    newest: dict[int, int] = {}
    for token, number in numbers.items():
        row = rows[token]
        says_more = row["stars"] is not None or row["likes"] is not None
        newest[row["account"]] = max(newest.get(row["account"], 0), number * says_more)
    return newest


class _AccountsChanged:
    """The update of accounts with new rows, compiled once: row by row SQLAlchemy would take as long
    as the database. A user who was deleted is back."""

    def __init__(self, database: Database) -> None:
        given = bindparam("newest", type_=BigInteger)
        changed = case((accounts.c.changed < given, given), else_=accounts.c.changed)
        statement = update(accounts).where(accounts.c.number == bindparam("its_number"))
        self._compiled = statement.values(changed=changed, removed=null()).compile(
            dialect=database.engine.dialect
        )

    def execute(self, connection: Connection, newest: dict[int, int]) -> None:
        rows = [{"its_number": account, "newest": number} for account, number in newest.items()]
        order: list[str] | None = self._compiled.positiontup
        given = rows if order is None else [tuple(row[name] for name in order) for row in rows]
        if given:
            connection.exec_driver_sql(str(self._compiled), given)


def _name_again(
    connection: Connection, held: dict[str, tuple[int, int | None]], written: set[int]
) -> None:
    """Give users who were deleted and are back their names again."""
    returned = [
        {"its_number": account, "its_user": user}
        for user, (account, removed) in held.items()
        if removed is not None and account in written
    ]
    if returned:
        own = accounts.c.number == bindparam("its_number")
        connection.execute(update(accounts).where(own).values(user=bindparam("its_user")), returned)


def _mark_offers(connection: Connection, events: list[Event]) -> None:
    for types, column in ((CLICKS | PURCHASES, offers.c.clicked), (PURCHASES, offers.c.bought)):
        marked = [
            {"its_list": event.list, "its_item": event.item, "its_time": event.at}
            for event in events
            if event.list is not None and event.type in types
        ]
        if marked:
            own = (offers.c.list == bindparam("its_list"), offers.c.item == bindparam("its_item"))
            statement = update(offers).where(*own, column.is_(None))
            connection.execute(statement.values({column: bindparam("its_time")}), marked)
