"""A store of a test, events for it, and databases that refuse."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Row, Table, event, select

from producers.edge.events.event import Event
from producers.edge.events.feedback_types import FeedbackTypes
from producers.edge.store.database import Database

NOW = 1_790_000_000_000


@dataclass(frozen=True)
class Terms:
    """What the intake needs of a site's terms."""

    feedback: FeedbackTypes = field(default_factory=FeedbackTypes)
    signed: bool = False


def happened(
    user: str = "ann",
    item: str = "shoe",
    type: str = "view",
    at: int = NOW,
    value: float | None = None,
    **more: str,
) -> Event:
    return Event(user, item, type, value, at, **more)


def rows(database: Database, table: Table) -> Sequence[Row[tuple[object, ...]]]:
    """Return every row, in the order of the first column."""
    with database.reading() as connection:
        return connection.execute(select(table).order_by(table.columns[0])).all()


@contextmanager
def full(database: Database) -> Iterator[None]:
    """Let the disk be full: SQLite may not have another page."""
    with _every_connection(database, "PRAGMA max_page_count = 1"):
        yield


@contextmanager
def _every_connection(database: Database, pragma: str) -> Iterator[None]:
    def limit(connection: sqlite3.Connection, *_: object) -> None:
        connection.execute(pragma).close()

    event.listen(database.engine, "checkout", limit)
    try:
        yield
    finally:
        event.remove(database.engine, "checkout", limit)
        database.engine.dispose()  # connections that were limited


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let another program write to the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
