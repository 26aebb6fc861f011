"""What devices must not forget: the key, each device's last number, and what was published.

    meta        the device key, 32 bytes of os.urandom, made once
    devices     pseudonym -> last seq that was reserved, and the items that were published: their
                keys in order, 8 bytes each
    datasets    digest -> mechanism, rows reserved, rows in all, how often it was begun, and
                whether it was begun in order to publish again

One sqlite file for a population of devices, mode 0600, every commit on the disk before it returns
(synchronous=FULL). Numbers, rows and ratings are reserved *before* they are drawn or sent: whatever
is lost by a crash is lost, but no seq is used twice and no report is drawn twice for one rating,
which would cost a second epsilon. A rating is its (pseudonym, item), by whatever way and from
whatever file it comes. One process at a time writes the store (flock on `<file>.lock`); `read_key`
may look while it does. An old copy must not be put back: its numbers would be used twice. Whoever
can read this file can link users to pseudonyms: it stays on the device.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from producers.pseudonyms import KEY_BYTES
from stream_app.errors import Refusal
from stream_app.wire import MAX_RATINGS

_APPLICATION = 0x6D75726D  # "murm": tells a store from another program's sqlite file
_FORMAT = 2  # format 1 did not hold the ratings of a replay: it cannot be taken over
_SCHEMA = """
create table meta (name text primary key, value blob not null) without rowid;
create table devices (device blob primary key not null, seq integer not null, items blob not null);
create table datasets (digest blob primary key, mechanism text not null, reserved integer not null,
                       total integer not null, begun integer not null,
                       again integer not null) without rowid;
"""


@dataclass(frozen=True)
class Replay:
    """How far a data set has been published: rows 0 .. reserved-1 of `total`, begun so often.

    `again`: it was begun in order to publish what was published before, and goes on like that.
    """

    digest: bytes
    reserved: int
    total: int
    begun: int
    again: bool


@dataclass
class Store:
    """An open store; use it as a context manager. Every refusal is a `Refusal` of one sentence."""

    path: Path
    key: bytes = field(repr=False)
    _database: sqlite3.Connection = field(repr=False)
    _lock: int = field(repr=False)
    _process: int = field(default_factory=os.getpid, repr=False)

    @classmethod
    def open(cls, path: Path | str) -> Store:
        """Open the store at `path`, or make it (mode 0600) with a fresh key."""
        path = Path(path).expanduser()
        lock = _locked(path)
        try:
            _create(path)
            return cls(path, *_opened(path), lock)
        except BaseException:
            os.close(lock)
            raise

    def close(self) -> None:
        """Give the file back; nothing is pending, every reservation is already on the disk."""
        self._database.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def _commit(self) -> Iterator[sqlite3.Connection]:
        """One transaction that is on the disk when the block ends, or did not happen at all."""
        if os.getpid() != self._process:
            raise RuntimeError(
                "device store: opened before a fork; open it in the process that uses it"
            )
        with _told(self.path):
            self._database.execute("begin immediate")
            try:
                yield self._database
                self._database.execute("commit")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("rollback")
                raise

    def begin(self, digest: bytes, mechanism: str, total: int, *, again: bool = False) -> Replay:
        """Return where a data set goes on: after the last reserved row, or (again) at row 0.

        A data set that is finished, or was begun under another mechanism, is refused unless
        `again`.
        """
        with self._commit() as database:
            row = database.execute(
                "select mechanism, reserved, begun, again from datasets where digest = ?", (digest,)
            ).fetchone()
            if row is not None and not again:
                known, reserved, begun, agreed = row
                if reserved >= total:
                    raise Refusal(
                        f"this data set was published already ({total} rows under {known}); "
                        "publishing it again draws a second report for every rating and spends "
                        "its epsilon a second time: --again does so"
                    )
                if known != mechanism:
                    raise Refusal(
                        f"this data set was begun under {known} ({reserved} of {total} rows), not "
                        f"{mechanism}; go on with {known}, or start over with --again"
                    )
                return Replay(digest, reserved, total, begun, bool(agreed))
            begun = 1 if row is None else row[2] + 1
            database.execute(
                "insert or replace into datasets values (?, ?, 0, ?, ?, ?)",
                (digest, mechanism, total, begun, again),
            )
        return Replay(digest, 0, total, begun, again)

    def advance(
        self,
        replay: Replay,
        upto: int,
        ratings: Iterable[tuple[bytes, NDArray[np.uint64]]],
        per_message: int = MAX_RATINGS,
    ) -> list[tuple[int, NDArray[np.bool_]]]:
        """Reserve rows below `upto` and the ratings in them, all in one commit.

        `ratings` are (device, keys of distinct items). Returned for each device: its first seq, and
        which of its items are to be published, (n,) bool; those that were published before are not,
        unless the replay is one to publish again. It has a seq for every `per_message` of them.
        """
        with self._commit() as database:
            changed = database.execute(
                "update datasets set reserved = ? where digest = ? and begun = ? and reserved < ?",
                (upto, replay.digest, replay.begun, upto),
            ).rowcount
            if changed != 1:
                raise RuntimeError(f"device store: rows below {upto} are reserved already")
            return [
                _reserve(database, device, items, per_message, again=replay.again)
                for device, items in ratings
            ]

    def claim(self, device: bytes, item: int, *, again: bool = False) -> int:
        """Reserve one rating of (device, item) and return its seq; once, unless `again`."""
        with self._commit() as database:
            items = np.array([item], np.uint64)
            seq, wanted = _reserve(database, device, items, 1, again=again)
            if not wanted[0]:
                raise Refusal(
                    "this user's rating of this item was published already; "
                    "a second report spends a second epsilon on it: --again does so"
                )
            return seq


def _reserve(
    database: sqlite3.Connection,
    device: bytes,
    items: NDArray[np.uint64],
    per_message: int,
    *,
    again: bool,
) -> tuple[int, NDArray[np.bool_]]:
    """Note what one device publishes; return its first seq and which of the items are to go."""
    row = database.execute("select seq, items from devices where device = ?", (device,)).fetchone()
    last, known = (0, _NONE) if row is None else (row[0], np.frombuffer(row[1], "<u8"))
    new = np.ones(len(items), np.bool_)
    if len(known):
        places = np.minimum(np.searchsorted(known, items), len(known) - 1)
        new = known[places] != items
    wanted = np.ones(len(items), np.bool_) if again else new
    count = -(-int(np.count_nonzero(wanted)) // per_message)
    if count:
        published = np.sort(np.concatenate((known, items[new]))).astype("<u8", copy=False)
        database.execute(
            "insert into devices values (?, ?, ?) on conflict do update "
            "set seq = excluded.seq, items = excluded.items",
            (device, last + count, published.tobytes()),
        )
    return last + 1, wanted


_NONE = np.zeros(0, "<u8")


def read_key(path: Path | str) -> bytes:
    """Return the device key of a store, also while another process publishes from it."""
    path = Path(path).expanduser()
    if not path.is_file():
        raise Refusal(f"device store {path}: there is none; publishing a rating makes it")
    with _told(path), closing(sqlite3.connect(path, timeout=5.0, isolation_level=None)) as database:
        return _key(database, path)


def _opened(path: Path) -> tuple[bytes, sqlite3.Connection]:
    database = sqlite3.connect(path, timeout=5.0, isolation_level=None)
    try:
        with _told(path):
            _prepare(database)
            if database.execute("pragma quick_check(1)").fetchone()[0] != "ok":
                raise Refusal(f"device store {path}: is damaged; restore it from a backup")
            return _key(database, path), database
    except BaseException:
        database.close()
        raise


def _locked(path: Path) -> int:
    """Take the lock of the store for as long as the descriptor is open; refuse when it is taken."""
    # A file of its own: closing a second descriptor of the database would drop sqlite's own locks.
    lock = -1
    try:
        if path.is_dir():
            raise IsADirectoryError(0, "is a directory")
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise Refusal(f"device store {path}: {_BUSY}") from None
    except OSError as error:
        raise Refusal(_unwritable(path, error)) from None
    return lock


def _create(path: Path) -> None:
    """Make the file with mode 0600 where there is none; refuse what cannot hold a store."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        mode = path.stat().st_mode & 0o777
    except OSError as error:
        raise Refusal(_unwritable(path, error)) from None
    if mode & 0o077:
        raise Refusal(
            f"device store {path}: others can open it (mode {mode:o}) and it holds the device key; "
            f"run chmod 600 {path}"
        )


def _unwritable(path: Path, error: OSError) -> str:
    return (
        f"device store {path}: cannot be opened for writing ({error.strerror}); "
        "give the path of a file with --store"
    )


def _prepare(database: sqlite3.Connection) -> None:
    """Make the tables in a new file, with the key, in one transaction."""
    database.execute("pragma synchronous = full")
    database.execute("begin exclusive")
    if database.execute("select count(*) from sqlite_master").fetchone()[0] == 0:
        database.execute(f"pragma application_id = {_APPLICATION}")
        database.execute(f"pragma user_version = {_FORMAT}")
        for statement in _SCHEMA.strip().split(";\n"):
            database.execute(statement)
        database.execute("insert into meta values ('key', ?)", (os.urandom(KEY_BYTES),))
    database.execute("commit")


def _key(database: sqlite3.Connection, path: Path) -> bytes:
    """Return the device key, from a file that is a store of this format."""
    if database.execute("pragma application_id").fetchone()[0] != _APPLICATION:
        raise Refusal(f"device store {path}: is another program's database; choose another file")
    version = database.execute("pragma user_version").fetchone()[0]
    if version != _FORMAT:
        raise Refusal(
            f"device store {path}: has format {version}, this version reads {_FORMAT}; "
            "use the murmurec that made it"
        )
    row = database.execute("select value from meta where name = 'key'").fetchone()
    if row is None or len(row[0]) != KEY_BYTES:
        raise Refusal(f"device store {path}: the device key is missing; restore it from a backup")
    return bytes(row[0])


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn what sqlite says into one sentence with the mend."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise  # a defect, not a state of the disk
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", None)
        told = _SENTENCES.get(
            (code or 0) & 0xFF, f"cannot be used ({error}); choose another with --store"
        )
        raise Refusal(f"device store {path}: {told}") from None


_BUSY = "another process is using it; wait for it to end or give another with --store"
_SENTENCES = {
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_NOTADB: "is not a device store; choose another file with --store",
    sqlite3.SQLITE_CORRUPT: "is damaged; restore it from a backup",
    sqlite3.SQLITE_READONLY: "is read-only; make it writable or choose another with --store",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; choose another place with --store",
    sqlite3.SQLITE_FULL: "the disk is full; nothing was sent; free some space and go on",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written; nothing was sent",
}
