"""Events in the store: one transaction for their accounts, their rows and the lists they came from.

    accounts    a row for each user, made at his first event: pseudonym, and the book it decides
    feedback    a row for each event whose token is new
    accounts.changed    number of the newest row that says more than "seen": there is something to
                        report while it is above `reported`
    offers      the item of a list, clicked or bought at the time of the first such event

The transaction holds the rows of its accounts, in one order, before it numbers feedback: of one
account, a later number is committed later, whichever edge writes it, so no row can appear behind
`reported`. What happened before a user was deleted stays deleted; a later event brings him back.

The statements are text with many rows each: row by row, SQLAlchemy and the driver's loop would take
longer than the database.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from sqlalchemy import Connection

from producers.edge.events.event import Event
from producers.edge.events.feedback_types import CLICKS, PURCHASES, FeedbackTypes
from producers.edge.store.book_log import BOOKS
from producers.edge.store.database import Database
from producers.edge.store.store_tables import accounts
from producers.identities import Identities

MOST_ROWS = 10_000
"""In one transaction: databases bound the parameters of a statement."""
_ROWS = 1_000  # of feedback in one statement

_HELD = 'SELECT "{column}", number, removed FROM accounts WHERE "{column}" IN ({rows})'
_INSERTION = (
    "INSERT INTO feedback (account, item, type, value, stars, likes, at, token) VALUES {rows} "
    "ON CONFLICT DO NOTHING RETURNING token, number"
)
# Of rows that were deleted, too: the user is back.
_CHANGE = (
    "UPDATE accounts SET removed=NULL, changed=CASE WHEN changed < found.column2 "
    "THEN found.column2 ELSE changed END "
    "FROM (VALUES {rows}) AS found WHERE accounts.number=found.column1"
)
_NAMING = 'UPDATE accounts SET "user"={rows} WHERE number={rows}'
_MARK = "UPDATE offers SET {column}={rows} WHERE list={rows} AND item={rows} AND {column} IS NULL"

_Accounts = dict[str, tuple[int, int | None]]  # by user: number, and when he was deleted


class FeedbackRows:
    """Writes events; for one thread. `signed`: as the server's `devices`."""

    def __init__(self, database: Database, types: FeedbackTypes, *, signed: bool) -> None:
        self._database, self._types, self._signed = database, types, signed
        self._mark = "?" if database.is_sqlite else "%s"

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

    def _held(self, connection: Connection, users: list[str]) -> _Accounts:
        """Return the accounts that are there, whose rows are held."""
        # A report may read them meanwhile.
        found = {
            user: (number, removed)
            for user, number, removed in self._locked(connection, "user", users, "NO KEY UPDATE")
        }
        # Of users who were deleted the name is gone, the pseudonym is not.
        devices = self._devices([user for user in users if user not in found])
        return found | {
            devices[bytes(device)]: (number, removed)
            for device, number, removed in self._locked(connection, "device", devices, "UPDATE")
        }

    def _locked(
        self, connection: Connection, column: str, names: Iterable[Any], lock: str
    ) -> Iterable[Any]:
        given = tuple(names)
        if not given:
            return ()
        text = _HELD.format(column=column, rows=", ".join([self._mark] * len(given)))
        lock = "" if self._database.is_sqlite else f" FOR {lock}"
        return connection.exec_driver_sql(f"{text} ORDER BY number{lock}", given).all()

    def _devices(self, users: list[str]) -> dict[bytes, str]:
        # For these users alone: it keeps the key pairs of signed devices.
        identities = Identities(self._database.key, signed=self._signed)
        return {identities.pseudonym(user): user for user in users}

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
            for device, user in self._devices(users).items()
        ]
        with self._database.writing() as connection:
            self._database.add(connection, accounts, rows)

    def _inserted(
        self, connection: Connection, events: Sequence[Event], held: _Accounts
    ) -> list[bool]:
        first: dict[bytes, tuple[int, int, bool]] = {}  # by token: place, account, it says more
        rows: list[tuple[Any, ...]] = []
        for place, event in enumerate(events):
            token, (account, removed) = event.token, held[event.user]
            if token in first or (removed is not None and event.at <= removed):
                continue
            worth = self._types.worth(event.type, event.value)
            first[token] = place, account, worth != (None, None)
            rows.append((account, event.item, event.type, event.value, *worth, event.at, token))
        new, newest = [False] * len(events), dict[int, int]()
        for start in range(0, len(rows), _ROWS):
            for token, number in self._many(connection, _INSERTION, rows[start : start + _ROWS]):
                place, account, says_more = first[bytes(token)]
                new[place] = True
                newest[account] = max(newest.get(account, 0), number * says_more)
        if newest:
            self._many(connection, _CHANGE, list(newest.items()))
        returned = [
            (user, account)
            for user, (account, removed) in held.items()
            if removed is not None and account in newest
        ]
        self._each(connection, _NAMING, returned)
        fresh = [event for event, is_new in zip(events, new, strict=True) if is_new and event.list]
        for types, column in ((CLICKS | PURCHASES, "clicked"), (PURCHASES, "bought")):
            marked = [(each.at, each.list, each.item) for each in fresh if each.type in types]
            self._each(connection, _MARK, marked, column=column)
        return new

    def _many(self, connection: Connection, text: str, rows: Sequence[tuple[Any, ...]]) -> Any:
        """Run a statement over many rows, and return its result."""
        row = f"({', '.join([self._mark] * len(rows[0]))})"
        text = text.format(rows=", ".join([row] * len(rows)))
        return connection.exec_driver_sql(text, tuple(chain.from_iterable(rows)))

    def _each(
        self, connection: Connection, text: str, rows: list[tuple[Any, ...]], column: str = ""
    ) -> None:
        """Run a statement for each of a few rows."""
        if rows:
            connection.exec_driver_sql(text.format(rows=self._mark, column=column), rows)
