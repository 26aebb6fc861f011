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
    """An open book: a `producers.journal.frames.FrameLog`."""

    made, cut, unvouched = False, 0, False
    frames: tuple[Frame, ...]

    def __init__(self, database: Database, number: int) -> None:
        self._database, self._number = database, number
        self.path, self.key = Path(f"{database.name}#{number}"), database.key
        self._session: Connection | None = database.session()
        self._broken = False
        try:
            with database.sentences(Unwritable):
                self._take()
                self.frames, self._next = self._read()
        except BaseException:
            self.close()
            raise
        self.size = _size(self.frames)

    @property
    def usable(self) -> bool:
        """Whether the book takes records: not after a failure, until it is opened again."""
        return not self._broken

    def check(self) -> None:
        """Raise `Unwritable` where the session that holds the book has ended: it may be another
        edge's by now, and takes nothing more until it is opened again."""
        if self._broken or self._database.is_sqlite:
            return
        self._broken = True
        with self._database.sentences(Unwritable), self._transaction() as connection:
            connection.execute(select(1))
        self._broken = False

    def append(self, records: Sequence[tuple[Kind, bytes]], *, durable: bool) -> None:  # noqa: ARG002
        """Write records; they are durable on return. After an `Unwritable` it is not known whether
        they are there, and the book takes nothing more until it is opened again."""
        if self._broken or self._session is None:
            raise Unwritable(
                f"store {self._database.name}: an earlier write failed; open the book again"
            )
        rows = [
            {"book": self._number, "place": self._next + n, "kind": int(kind), "body": body}
            for n, (kind, body) in enumerate(records)
        ]
        self._broken = True
        with self._database.sentences(Unwritable), self._transaction() as connection:
            connection.execute(frames.insert(), rows)
        self._broken = False
        self._next += len(rows)
        self.size += sum(FRAME_BYTES + len(body) for _, body in records)

    def replace(self, records: Sequence[tuple[Kind, bytes]]) -> None:
        """Replace the whole book in one transaction."""
        if self._broken:
            self.append(records, durable=True)  # refuses
        number, first = self._number, self._next
        rows = [
            {"book": number, "place": first + n, "kind": int(kind), "body": body}
            for n, (kind, body) in enumerate(records)
        ]
        self._broken = True
        with self._database.sentences(Unwritable), self._transaction() as connection:
            connection.execute(delete(frames).where(frames.c.book == number))
            connection.execute(frames.insert(), rows)
        self._broken = False
        self._next += len(rows)
        self.size = HEADER_BYTES + sum(FRAME_BYTES + len(body) for _, body in records)

    def close(self) -> None:
        """Give the book back; the session that held it ends."""
        if self._session is not None:
            session, self._session = self._session, None
            session.invalidate()  # with its lock: the pool would keep it open
            session.close()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        assert self._session is not None
        with self._session.begin():
            yield self._session

    def _take(self) -> None:
        """Hold the book; raises `BookTaken` where another edge does."""
        if not self._database.is_sqlite:
            lock = select(func.pg_try_advisory_lock(_LOCKS + self._number))
            with self._transaction() as connection:
                for name, value in _KEEPALIVES.items():
                    connection.exec_driver_sql(f"SET {name} = {value}")
                held = connection.execute(lock).scalar_one()
            if not held:
                raise BookTaken(f"store {self._database.name}: another edge writes this book")
        with self._transaction() as connection:
            self._database.add(connection, books, [{"number": self._number}])

    def _read(self) -> tuple[tuple[Frame, ...], int]:
        """Return the frames, and the place of the next one."""
        with self._transaction() as connection:
            return read_frames(connection, self._number)


def read_frames(connection: Connection, number: int) -> tuple[tuple[Frame, ...], int]:
    """Return the frames of a book as they are now, and the place of the next one."""
    wanted = select(frames).where(frames.c.book == number).order_by(frames.c.place)
    found, position, place = [], HEADER_BYTES, 0
    for row in connection.execute(wanted):
        found.append(Frame(Kind(row.kind), memoryview(row.body), position))
        position += FRAME_BYTES + len(row.body)
        place = row.place + 1
    return tuple(found), place


def _size(found: Sequence[Frame]) -> int:
    """Return the size that a file with these frames would have."""
    return HEADER_BYTES + sum(FRAME_BYTES + len(each.body) for each in found)
