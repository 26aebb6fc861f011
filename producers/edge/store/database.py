"""The database of an edge: SQLite for one process, PostgreSQL for several.

    writing()   one transaction: all of it is durable when the block ends, or none of it happened
    reading()   one snapshot

What the database refuses becomes one sentence (`Unwritable`, `Unreadable`), without a value of the
site in it. SQLite runs in WAL mode with synchronous = FULL: a commit outlives a power cut. Its
file has mode 0600 and one edge, which holds the lock beside it.

A copy that has forgotten what was released would spend spent budgets again. So the frames that the
books have had are counted, outside the store, too:

    mark  <=  frames in the store      or the store is an older copy      (`producers.journal`)

The mark of SQLite is FILE.mark, and a store without it must have been `closed`, which its edge
writes when it ends: the file alone of an edge that runs, or was killed, lacks what is in its -wal.
The mark is synced before `closed` goes, and written after each commit. A file is 0 bytes or a whole
store, as its tables are made without a -wal. The mark of PostgreSQL, which is copied as a whole or
not at all, is in the user's state folder.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from sqlalchemy import Connection, Engine, Table, create_engine, delete, event, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from producers.edge.store.store_tables import VERSION, frames, metadata, site
from producers.journal.high_water_mark import HighWaterMark
from producers.pseudonyms import KEY_BYTES
from stream_app.errors import OlderJournal, Unreadable, Unwritable, UserError
from stream_app.kafka.durable_file import sync_folder

_BUSY_SECONDS = 5
_CONNECT_SECONDS = 5
_CONNECTIONS = {"pool_size": 8, "max_overflow": 32}  # every open book holds one
_EXAMPLES = "sqlite:///edge.db or postgresql://user@host/name"
_CLOSED = "closed"  # of `site`


class Database:
    """An open store; `name` is its address without a password.

    Raises UserError for an address that is none, a store of another version, an older copy, one
    that another edge uses, and one that cannot be opened.
    """

    def __init__(self, address: str) -> None:
        url = checked(address)
        self.name = url.render_as_string(hide_password=True)
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self._lock: FileLock | None = None
        self._path, self._opened = Path(url.database or ""), False
        if self.is_sqlite:
            self._lock = _locked(self._path, self.name)
            self.engine = _sqlite_engine(url)
        else:
            # A connection that the server has closed is noticed before it is used. Ids are any
            # Unicode, whatever encoding the environment names.
            arguments = {"connect_timeout": _CONNECT_SECONDS, "client_encoding": "utf8"}
            self.engine = create_engine(
                url, pool_pre_ping=True, connect_args=arguments, **_CONNECTIONS
            )
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        beside = Path(f"{self._path}.mark") if self.is_sqlite else None
        is_marked = beside is None or beside.exists()
        is_new = self.is_sqlite and (not self._path.stat().st_size or self._was_never_made())
        if is_new and beside is not None and is_marked and beside.stat().st_size:
            raise UserError(
                f"store {self.name}: is empty, and {beside} says that it was not: put the newest "
                f"copy back; {_knowingly(beside)}"
            )
        if is_new or not self.is_sqlite:
            self._make()
        with self.reading() as connection:
            kept = dict(map(tuple, connection.execute(select(site.c.name, site.c.value))))
        if kept["version"] != str(VERSION).encode():
            raise UserError(
                f"store {self.name}: is of version {kept['version'].decode()[:20]}, this murmurec "
                f"reads {VERSION}; use the one that wrote it, or begin with another --store"
            )
        self.key: bytes = kept["key"]
        self._mark = HighWaterMark(self.key, beside)
        if self.is_sqlite and not (is_marked and _CLOSED in kept):
            self._check_copy(is_whole=is_marked or _CLOSED in kept)
        newest = self._mark.newest()  # before the frames: another edge may write some
        with self.reading() as connection:
            places = select(frames.c.book, func.max(frames.c.place) + 1).group_by(frames.c.book)
            self._reached = dict(map(tuple, connection.execute(places)))
        if (count := sum(self._reached.values())) < newest:
            raise OlderJournal(
                f"store {self.name}: has had {count} frames, and {newest} by {self._mark.path}, so "
                "this is an older copy, which would spend a spent budget again: put the newest "
                f"copy back; {_knowingly(self._mark.path)}"
            )
        self._mark.advance(count)
        if self.is_sqlite:
            self._open_file()

    def _was_never_made(self) -> bool:
        """Return whether a kill while the tables were made has left nothing: SQLite rolls it back,
        and the file is 0 bytes again."""
        if not Path(f"{self._path}-journal").exists():
            return False
        try:
            with closing(sqlite3.connect(self._path)) as connection:
                if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    return False
            os.truncate(self._path, 0)
        except sqlite3.Error as error:
            raise UserError(f"store {self.name}: {_of_sqlite(error)}") from None
        return True

    def _make(self) -> None:
        """Make the tables that are not there, in one transaction."""
        with self.writing() as connection:
            if not self.is_sqlite:  # one edge makes the tables
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(6201733)")
                if (held := connection.exec_driver_sql("SHOW server_encoding").scalar()) != "UTF8":
                    raise UserError(
                        f"store {self.name}: its encoding is {held}, which cannot hold every id; "
                        "create the database with ENCODING 'UTF8' TEMPLATE template0"
                    )
            metadata.create_all(connection)
            new = {"version": str(VERSION).encode(), "key": os.urandom(KEY_BYTES), _CLOSED: b""}
            self.add(connection, site, [{"name": n, "value": new[n]} for n in new])
        self.engine.dispose()  # from now on with a write-ahead log

    def _check_copy(self, *, is_whole: bool) -> None:
        """Refuse a file that came here without its mark, unless an edge that ended wrote it, and
        one that is damaged."""
        if not is_whole:
            mark = Path(f"{self._path}.mark")
            raise OlderJournal(
                f"store {self.name}: is a copy of an edge that ran, without its -wal and .mark: "
                "put both beside it, or copy with murmurec edge backup FILE; "
                f"{_knowingly(mark)}"
            )
        with self.reading() as connection:
            if connection.exec_driver_sql("PRAGMA quick_check(1)").scalar() != "ok":
                raise UserError(f"store {self.name}: {_OF_SQLITE['malformed']}")

    def _open_file(self) -> None:
        """Take the file into use: its mark is durable before it is no longer `closed`."""
        try:
            handle = os.open(self._mark.path, os.O_WRONLY | os.O_CREAT, 0o600)
            os.fsync(handle)
            os.close(handle)
            sync_folder(self._path.parent)
        except OSError as error:
            raise UserError(
                f"store {self.name}: {self._mark.path} cannot be written ({error.strerror})"
            ) from None
        with self.writing() as connection:
            connection.execute(delete(site).where(site.c.name == _CLOSED))
        self._opened = True
        if not self.scrub():  # in the file itself, or its copy would be taken for a closed one
            raise UserError(f"store {self.name}: another program reads it; end that one")

    def reached(self, book: int, place: int) -> None:
        """Count the frames of a book, which are in the store, outside of it, too."""
        self._reached[book] = place
        count = sum(self._reached.values())
        # Of PostgreSQL another edge of this machine may have counted more.
        self._mark.advance(count if self.is_sqlite else max(count, self._mark.newest()))

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Give a transaction; it is committed, durably, when the block ends without an error.

        Raises `Unwritable` where the database refuses; nothing of it happened then, unless the
        connection was lost during the commit: what is written again must change nothing.
        """
        with self.session() as connection, self.transaction(connection, Unwritable):
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a snapshot; raises `Unreadable` where the database refuses."""
        with (
            self.sentences(Unreadable),
            self.engine.connect() as connection,
            self.transaction(connection, Unreadable),
        ):
            yield connection

    def probe(self) -> bool:
        """Return whether the store can be written now: a row of some bytes, durably."""
        try:
            with self.writing() as connection:
                self.retag(connection, "probe")
        except Unwritable:
            return False
        return True

    def session(self) -> Connection:
        """Return a connection of its own, whose every transaction writes."""
        with self.sentences(Unwritable):
            return self.engine.connect().execution_options(writes=True)

    @contextmanager
    def transaction(self, connection: Connection, kind: type[UserError]) -> Iterator[None]:
        """Run the block in a transaction; what the database refuses becomes a sentence of this
        kind. An error of the block is raised as it is, even where nothing can be rolled back."""
        with self.sentences(kind):
            begun = connection.begin()
            try:
                yield
            except BaseException:
                with suppress(SQLAlchemyError):  # the connection is lost, too
                    begun.rollback()
                raise
            begun.commit()

    @contextmanager
    def sentences(self, kind: type[UserError]) -> Iterator[None]:
        """Turn what the database refuses into one sentence of this kind."""
        try:
            yield
        except SQLAlchemyError as error:
            raise kind(f"store {self.name}: {_reason(error)}") from None

    def insertion(self, table: Table) -> Any:
        """Return an insertion that knows what to do on a conflict."""
        return sqlite.insert(table) if self.is_sqlite else postgresql.insert(table)

    def add(self, connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert the rows that are not there."""
        if rows:
            connection.execute(self.insertion(table).on_conflict_do_nothing(), list(rows))

    def tag(self, connection: Connection, name: str) -> bytes:
        """Return the tag under a name, by which a copy is known to be old; empty before the first
        change."""
        wanted = select(site.c.value).where(site.c.name == name)
        return bytes(connection.execute(wanted).scalar() or b"")

    def retag(self, connection: Connection, name: str) -> None:
        """Write a new random tag, in the transaction that changes what it stands for."""
        row = self.insertion(site).values(name=name, value=os.urandom(16))
        changed = {"value": row.excluded.value}
        connection.execute(row.on_conflict_do_update(index_elements=["name"], set_=changed))

    def scrub(self) -> bool:
        """Remove what was deleted from the write-ahead log of SQLite, too, and return whether it is
        gone: not while somebody reads what was before. PostgreSQL removes it by VACUUM."""
        if self.is_sqlite:
            # An error: at the next checkpoint.
            with closing(self.engine.raw_connection()) as connection, suppress(sqlite3.Error):
                found = connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                return found is not None and not found[0]
        return False

    def close(self) -> None:
        """Close every connection and release the file."""
        if self._opened:
            with suppress(UserError), self.writing() as connection:
                self.add(connection, site, [{"name": _CLOSED, "value": b""}])
            self.scrub()
        if hasattr(self, "engine"):
            self.engine.dispose()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def backup(address: str, path: Path) -> None:
    """Copy a SQLite store, which may be in use, to a file that is not there; UserError."""
    url = checked(address)
    name, partial = url.render_as_string(hide_password=True), Path(f"{path}.partial")
    if url.get_backend_name() != "sqlite":
        raise UserError(f"store {name}: PostgreSQL is copied by pg_dump")
    source = Path(url.database or "").absolute().as_uri()
    try:
        if path.exists():
            raise UserError(f"{path}: is there; give another FILE")
        partial.unlink(missing_ok=True)
        os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        with (
            closing(sqlite3.connect(f"{source}?mode=rw", uri=True)) as old,
            closing(sqlite3.connect(partial, isolation_level=None)) as new,
        ):
            old.backup(new)
            _check_source(new, Path(f"{url.database}.mark"), name)
            new.execute("INSERT OR IGNORE INTO site VALUES (?, ?)", (_CLOSED, b""))
            new.execute("PRAGMA journal_mode(DELETE)").close()  # one file
        partial.replace(path)
    except sqlite3.Error as error:
        raise UserError(f"store {name}: {_of_sqlite(error)}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        partial.unlink(missing_ok=True)


def _check_source(copy: sqlite3.Connection, mark: Path, name: str) -> None:
    """Refuse to make a whole store of a copy that its edge would refuse."""
    kept = dict(copy.execute("SELECT name, value FROM site").fetchall())
    count = copy.execute("SELECT sum(n) FROM (SELECT max(place) + 1 n FROM frames GROUP BY book)")
    newest = HighWaterMark(kept["key"], mark).newest() if mark.exists() else 0
    if (not mark.exists() and _CLOSED not in kept) or (count.fetchone()[0] or 0) < newest:
        raise OlderJournal(f"store {name}: is an older copy, or lacks its .mark; copy the newest")


def _knowingly(mark: Path) -> str:
    return f"to go on with this one, whose budgets add to what was spent, empty {mark}"


def checked(address: str) -> Any:
    """Return the address as a URL; UserError for one that is not of a store."""
    try:
        url = make_url(address)
        backend = url.get_backend_name()
    except (ArgumentError, NoSuchModuleError):
        backend = ""
    if backend == "sqlite" and url.database not in (None, "", ":memory:"):
        return url
    if backend == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    shown = address.partition("://")[0][:30]
    raise UserError(f"--store {shown}: is no store of an edge; give {_EXAMPLES}")


def _locked(path: Path, name: str) -> FileLock:
    """Make the file with mode 0600 if there is none, and hold its lock."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        mode = path.stat().st_mode
        lock = FileLock(f"{path}.lock", mode=0o600)
        lock.acquire(blocking=False)
    except Timeout:
        raise UserError(
            f"store {name}: another edge uses it, and SQLite has one; end that one, or give "
            "several edges a PostgreSQL (--store postgresql://...)"
        ) from None
    except OSError as error:
        raise UserError(
            f"store {name}: cannot be opened ({error.strerror}); give another --store"
        ) from None
    if mode & 0o077:
        lock.release()
        raise UserError(
            f"store {name}: others can open it (mode {mode & 0o777:o}), and it holds clean ratings "
            f"and the key of all pseudonyms; run chmod 600 {path}"
        )
    return lock


# secure_delete: what a user's deletion removes is overwritten, and not left in free pages.
_PRAGMAS = (
    *("journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)", "secure_delete(ON)"),
    *("wal_autocheckpoint(8000)", "cache_size(-16000)"),  # in pages of the log, in KiB
)


def _sqlite_engine(url: Any) -> Engine:
    engine = create_engine(url, connect_args={"timeout": _BUSY_SECONDS}, **_CONNECTIONS)

    @event.listens_for(engine, "connect")
    def _connected(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # `BEGIN` is written below
        # Tables are made without a write-ahead log: the file holds nothing, or all of them.
        for pragma in _PRAGMAS if Path(url.database).stat().st_size else _PRAGMAS[1:]:
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        # A transaction that writes takes the lock first: it never fails halfway for another one.
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


_OF_SQLITE = {
    "full": "the disk is full; free some space, and it goes on",
    "locked": "another program writes to it; end that one",
    "readonly": "is read-only; make it writable",
    "disk I/O": "the disk cannot be read or written; check it",
    "unable to open": "cannot be opened; check the folder and its rights",
    "malformed": "is damaged; restore it from a copy",
    "not a database": "is no database; give another --store",
    "no such table": (
        "holds no tables of an edge, as a copy without its -wal does; copy with murmurec edge "
        "backup FILE, or give another --store"
    ),
}
_OF_POSTGRESQL = {
    "53100": "its disk is full; free some space, and it goes on",
    "28": "refuses the user or the password; correct --store",
    "3D000": "has no such database; create it",
    "42501": "the user lacks a right; grant ALL on its schema",
}


def _of_sqlite(error: sqlite3.Error) -> str:
    for words, sentence in _OF_SQLITE.items():
        if words in str(error):
            return sentence
    return f"refuses ({type(error).__name__}); check it"


def _reason(error: SQLAlchemyError) -> str:
    """Return what is wrong and its mend, without a value of a statement."""
    origin = error.orig if isinstance(error, DBAPIError) else None
    if isinstance(origin, sqlite3.Error):
        return _of_sqlite(origin)
    state = str(getattr(origin, "sqlstate", None) or "")
    for start, sentence in _OF_POSTGRESQL.items():
        if state.startswith(start):
            return sentence
    if not state or state.startswith(("08", "57P")):
        return "cannot be reached; start it, or correct --store"
    return f"refuses (SQLSTATE {state}); check it"
