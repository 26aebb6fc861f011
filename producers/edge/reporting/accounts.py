"""The accounts for which something is to be done: statements on the store.

    due       events came after the last look: changed > reported
    removed   the site deleted the user
    forget    the recommender is still to be asked to forget the device; nothing is reported before

An account that `due` or `present` returns is not removed until the transaction ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, func, select, update

from producers.edge.store.store_tables import accounts

UNREPORTED = -1  # in `reported`: to be looked at again, whatever it was

_named = accounts.c.removed.is_(None)
_quiet = accounts.c.forget.is_(None)
_changed = accounts.c.changed > accounts.c.reported
_of_book = select(accounts.c.number, accounts.c.device, accounts.c.changed).where(
    accounts.c.book == bindparam("in_book")
)
_newest = select(
    select(func.max(accounts.c.number)).scalar_subquery(),
    select(func.max(accounts.c.removed)).where(accounts.c.removed.is_not(None)).scalar_subquery(),
)
_after = _of_book.where(accounts.c.number > bindparam("above"), _named)
_due_books = select(accounts.c.book).where(_changed, _named, _quiet).distinct()
_due = (
    _of_book.where(_changed, _named, _quiet)
    .order_by(accounts.c.number)
    .limit(bindparam("most"))
    .with_for_update(read=True, key_share=True)
)
_present = (
    select(accounts.c.device)
    .where(accounts.c.device.in_(bindparam("devices", expanding=True)), _named, _quiet)
    .with_for_update(read=True, key_share=True)
)
_removed = _of_book.where(accounts.c.removed >= bindparam("since"))
_to_forget = select(accounts.c.book, accounts.c.device).where(accounts.c.forget.is_not(None))
_by_device = update(accounts).where(accounts.c.device == bindparam("its_device"))
_looked_at = _by_device.values(reported=bindparam("up_to"))
_was_asked = _by_device.values(forget=None)


class BookAccount(NamedTuple):
    """An account of a book; `changed`: its newest event."""

    number: int
    device: bytes
    changed: int


def newest(connection: Connection) -> tuple[int, int]:
    """Return the largest number of an account, and the time of the newest deletion."""
    number, removed = connection.execute(_newest).one()
    return number or 0, removed or 0


def after(connection: Connection, book: int, number: int) -> list[BookAccount]:
    """Return the accounts above a number that the site has not removed."""
    rows = connection.execute(_after, {"in_book": book, "above": number})
    return [BookAccount(*row) for row in rows]


def due_books(connection: Connection) -> set[int]:
    """Return the books with accounts that are due."""
    return set(connection.scalars(_due_books))


def due(connection: Connection, book: int, most: int) -> list[BookAccount]:
    """Return accounts that are due, at most so many."""
    rows = connection.execute(_due, {"in_book": book, "most": most})
    return [BookAccount(*row) for row in rows]


def present(connection: Connection, devices: Sequence[bytes]) -> set[bytes]:
    """Return those of the devices whose users were not removed."""
    return set(connection.scalars(_present, {"devices": devices}))


def removed(connection: Connection, book: int, since: int) -> list[bytes]:
    """Return the devices whose users were removed from this millisecond on."""
    rows = connection.execute(_removed, {"in_book": book, "since": since})
    return [row.device for row in rows]


def to_forget(connection: Connection) -> list[tuple[int, bytes]]:
    """Return book and device of those that the recommender is to be asked to forget."""
    return [(row.book, row.device) for row in connection.execute(_to_forget)]


def looked_at(connection: Connection, devices: Iterable[tuple[bytes, int]]) -> None:
    """Record up to which event accounts were looked at; `UNREPORTED`: they are due again, and what
    was reported stays so."""
    rows = [{"its_device": device, "up_to": number} for device, number in devices]
    if rows:
        connection.execute(_looked_at, rows)


def was_asked(connection: Connection, device: bytes) -> None:
    """Record that the recommender was asked to forget a device."""
    connection.execute(_was_asked, {"its_device": device})
