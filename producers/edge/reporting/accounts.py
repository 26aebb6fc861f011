"""The accounts for which something is to be done: statements on the store.

    due       events came after the last look: changed > reported
    removed   the site deleted the user
    forget    the recommender is still to be asked to forget the device; nothing is reported before

An account that `due`, `present` or `held` returns is not removed until the transaction ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from producers.edge.store.store_tables import accounts

UNREPORTED = -1  # in `reported`: to be looked at again, whatever it was

_named = accounts.c.removed.is_(None)
_quiet = accounts.c.forget.is_(None)
_due = (accounts.c.changed > accounts.c.reported, _named, _quiet)
_by_device = update(accounts).where(accounts.c.device == bindparam("its_device"))


def after(connection: Connection, book: int, number: int) -> Sequence[Any]:
    """Return number and device of the accounts above a number that the site has not removed."""
    wanted = select(accounts.c.number, accounts.c.device)
    own = (accounts.c.book == book, accounts.c.number > number, _named)
    return connection.execute(wanted.where(*own)).all()


def due_books(connection: Connection) -> set[int]:
    """Return the books with accounts that are due."""
    return set(connection.scalars(select(accounts.c.book).where(*_due).distinct()))


def due(connection: Connection, book: int, most: int) -> Sequence[Any]:
    """Return device and newest event of accounts that are due, at most so many."""
    wanted = (
        select(accounts.c.device, accounts.c.changed)
        .where(accounts.c.book == book, *_due)
        .order_by(accounts.c.number)
        .limit(most)
        .with_for_update(read=True, key_share=True)
    )
    return connection.execute(wanted).all()


def present(connection: Connection, devices: Sequence[bytes]) -> set[bytes]:
    """Return those of the devices whose users were not removed."""
    wanted = select(accounts.c.device).where(accounts.c.device.in_(devices), _named, _quiet)
    return set(connection.scalars(wanted.with_for_update(read=True, key_share=True)))


def held(connection: Connection, device: bytes) -> Any:
    """Return number and user of an account; None for one that was removed."""
    wanted = select(accounts.c.number, accounts.c.user).where(accounts.c.device == device, _named)
    return connection.execute(wanted.with_for_update(read=True, key_share=True)).one_or_none()


def removed(connection: Connection, book: int, since: int) -> Sequence[bytes]:
    """Return the devices whose users were removed from this millisecond on."""
    own = (accounts.c.book == book, accounts.c.removed >= since)
    return connection.scalars(select(accounts.c.device).where(*own)).all()


def to_forget(connection: Connection) -> Sequence[Any]:
    """Return book and device of those that the recommender is to be asked to forget."""
    wanted = select(accounts.c.book, accounts.c.device).where(~_quiet)
    return connection.execute(wanted).all()


def looked_at(connection: Connection, devices: Iterable[tuple[bytes, int]]) -> None:
    """Record up to which event accounts were looked at; `UNREPORTED`: they are due again, and what
    was reported stays so."""
    rows = [{"its_device": device, "up_to": number} for device, number in devices]
    if rows:
        connection.execute(_by_device.values(reported=bindparam("up_to")), rows)


def was_asked(connection: Connection, device: bytes) -> None:
    """Record that the recommender was asked to forget a device."""
    connection.execute(_by_device.values(forget=None), {"its_device": device})
