"""The frames of a device journal as rows of the store: a book, with one writer at a time.

`producers.journal.Journal` writes through it what it writes to a file elsewhere: the same records,
paid and drawn in the same order. An append is one transaction, durable before it returns.

SQLite: the edge holds the file, so every book is its own. PostgreSQL: the writer of a book holds an
advisory lock of the session that also commits its frames. A session that ends can commit nothing
more, so of two edges that take each other for dead one writes. The server looks every few seconds
whether a silent session's machine is there, so the books of a dead one are free in a minute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.sql import Executable

from producers.edge.store.database import Database
from producers.edge.store.store_tables import books, frames
from producers.journal.frames import FRAME_BYTES, HEADER_BYTES, Frame, Kind
from stream_app.errors import Unwritable

BOOKS = 16  # of a store, for life: an account's book is decided by its number
_LOCKS = 6_201_800  # advisory locks of PostgreSQL, from here on
_KEEPALIVES = {"tcp_keepalives_idle": 20, "tcp_keepalives_interval": 10, "tcp_keepalives_count": 3}


class BookTaken(Unwritable):
    """Another edge writes this book."""


class BookLog:
    """A book as a `producers.journal.frames.FrameLog`: held, or only its frames as they are now,
    which takes no record. `usable`: it takes records, until a write fails. Raises `BookTaken`."""

    made, cut, unvouched = False, 0, False

    def __init__(self, database: Database, number: int, *, held: bool = True) -> None:
        self._database, self._number, self.usable = database, number, held
        self.path, self.key = Path(f"{database.name}#{number}"), database.key
        self._session = database.session() if held else None
        try:
            with self.writing() if held else database.reading() as connection:
                if held:
                    self._take(connection)
                self.frames, self._next, self.size = _read(connection, number)
            if held:
                database.reached(number, self._next)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Give a transaction of the session that holds the book. After an `Unwritable` it is not
        known whether it happened, and the book takes nothing more until it is opened again."""
        if not self.usable or self._session is None:
            raise Unwritable(
                f"store {self._database.name}: an earlier write failed; open the book again"
            )
        self.usable = False
        with self._database.transaction(self._session, Unwritable):
            yield self._session
        self.usable = True

    def check(self) -> None:
        """Raise `Unwritable` where the session that holds the book has ended: it may be another
        edge's by now."""
        if self.usable and not self._database.is_sqlite:
            with self.writing() as connection:
                connection.execute(select(1))

    def append(self, records: Sequence[tuple[Kind, bytes]], *, durable: bool) -> None:  # noqa: ARG002
        """Write records; they are durable on return."""
        self.size += self._write(records)

    def replace(self, records: Sequence[tuple[Kind, bytes]]) -> None:
        """Replace the whole book in one transaction."""
        old = delete(frames).where(frames.c.book == self._number)
        self.size = HEADER_BYTES + self._write(records, old)

    def _write(self, records: Sequence[tuple[Kind, bytes]], *before: Executable) -> int:
        """Write records, after some statements; return the bytes that they would take in a file."""
        rows = [
            {"book": self._number, "place": self._next + n, "kind": int(kind), "body": body}
            for n, (kind, body) in enumerate(records)
        ]
        with self.writing() as connection:
            for statement in before:
                connection.execute(statement)
            connection.execute(frames.insert(), rows)
        self._next += len(rows)
        self._database.reached(self._number, self._next)
        return sum(FRAME_BYTES + len(body) for _, body in records)

    def close(self) -> None:
        """Give the book back; the session that held it ends."""
        if self._session is not None:
            session, self._session = self._session, None
            session.invalidate()  # with its lock: the pool would keep it open
            session.close()

    def _take(self, connection: Connection) -> None:
        """Hold the book; raises `BookTaken` where another edge does."""
        if not self._database.is_sqlite:
            for name, value in _KEEPALIVES.items():
                connection.exec_driver_sql(f"SET {name} = {value}")
            lock = select(func.pg_try_advisory_lock(_LOCKS + self._number))
            if not connection.execute(lock).scalar_one():
                raise BookTaken(f"store {self._database.name}: another edge writes this book")
        self._database.add(connection, books, [{"number": self._number}])


def _read(connection: Connection, number: int) -> tuple[tuple[Frame, ...], int, int]:
    """Return the frames of a book, the place of the next one, and the size of a file with them."""
    wanted = select(frames).where(frames.c.book == number).order_by(frames.c.place)
    found, position, place = [], HEADER_BYTES, 0
    for row in connection.execute(wanted):
        found.append(Frame(Kind(row.kind), memoryview(row.body), position))
        position += FRAME_BYTES + len(row.body)
        place = row.place + 1
    return tuple(found), place, position
