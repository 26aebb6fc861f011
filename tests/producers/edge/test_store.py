"""The store of an edge: a copy of it that has forgotten something is not taken for the store."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, event, update

from producers.edge.store.database import Database, backup
from producers.edge.store.store_tables import accounts, site
from producers.journal.high_water_mark import HighWaterMark
from stream_app.errors import OlderJournal, UserError
from tests.fixtures.postgres import Server, postgres
from tests.producers.edge.reporting.world import edge
from tests.producers.edge.stores import rows

__all__ = ["postgres"]
FILES = ("edge.db", "edge.db-wal", "edge.db-journal", "edge.db.mark")


def address(folder: Path) -> str:
    return f"sqlite:///{folder}/edge.db"


def reported(database: Database, *items: str) -> None:
    """Let a user do something, and an edge report it."""
    run = edge(database)
    run.done("ann", *items)
    run.steps(3)
    run.reporter.stop()


def copied(folder: Path, to: Path, *names: str) -> Path:
    """Copy files of a store that are there, as `cp` does."""
    to.mkdir(exist_ok=True)
    for name in names:
        if (folder / name).exists():
            shutil.copy(folder / name, to / name)
    return to


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "edge"


def test_the_file_alone_of_a_running_edge_is_refused(folder: Path, tmp_path: Path) -> None:
    with Database(address(folder)) as database:
        early = copied(folder, tmp_path / "early", "edge.db")
        reported(database, "a")
        late = copied(folder, tmp_path / "late", "edge.db")
    for copy in (early, late):
        with pytest.raises(OlderJournal, match=r"edge that ran.*murmurec edge backup") as refusal:
            Database(address(copy))
        assert f"empty {copy}/edge.db.mark" in str(refusal.value)
        (copy / "edge.db.mark").touch()
        with Database(address(copy)) as knowingly:
            assert knowingly.key == database.key


def test_a_store_that_is_older_than_its_mark_is_refused(folder: Path, tmp_path: Path) -> None:
    with Database(address(folder)) as database:
        reported(database, "a")
    old = copied(folder, tmp_path / "old", "edge.db")
    with Database(address(folder)) as database:
        reported(database, "b")
    with Database(address(folder)):
        pass  # the newest one
    copied(old, folder, "edge.db")
    with pytest.raises(OlderJournal, match=r"older copy, .* put the newest copy back"):
        Database(address(folder))
    (folder / "edge.db.mark").write_bytes(b"")
    with Database(address(folder)) as knowingly:
        assert knowingly.key == database.key
    with Database(address(folder)):
        pass  # from now on it is the newest one


def test_an_empty_file_beside_a_mark_is_refused(folder: Path) -> None:
    with Database(address(folder)):
        pass
    (folder / "edge.db").write_bytes(b"")
    with pytest.raises(UserError, match=r"is empty, and .* says that it was not"):
        Database(address(folder))
    (folder / "edge.db").unlink()
    with pytest.raises(UserError, match="is empty"):
        Database(address(folder))
    (folder / "edge.db.mark").write_bytes(b"")
    with Database(address(folder)):
        pass


def test_a_store_that_was_closed_is_taken_elsewhere(folder: Path, tmp_path: Path) -> None:
    with Database(address(folder)) as database:
        reported(database, "a")
    with Database(address(copied(folder, tmp_path / "moved", "edge.db"))) as moved:
        assert moved.key == database.key
        assert [row.user for row in rows(moved, accounts)] == ["ann"]


def test_a_backup_holds_all_of_a_store_in_use(folder: Path, tmp_path: Path) -> None:
    with Database(address(folder)) as database:
        reported(database, "a", "b")
        (tmp_path / "copy").mkdir()
        backup(address(folder), tmp_path / "copy" / "edge.db")
        assert [path.name for path in (tmp_path / "copy").iterdir()] == ["edge.db"]
        with Database(address(tmp_path / "copy")) as copy:
            assert copy.key == database.key
            assert edge(copy).users.show("ann") == edge(database).users.show("ann")


@pytest.mark.parametrize("part", [0.0001, 0.3, 0.9])
@pytest.mark.parametrize("names", [("edge.db",), ("edge.db", "edge.db.mark")], ids=len)
def test_a_torn_file_is_a_sentence(
    folder: Path, tmp_path: Path, part: float, names: tuple[str, ...]
) -> None:
    with Database(address(folder)) as database:
        reported(database, *(f"item {n}" for n in range(30)))
    copy = copied(folder, tmp_path / "copy", *names) / "edge.db"
    copy.write_bytes(copy.read_bytes()[: int(part * copy.stat().st_size)])
    with pytest.raises(UserError, match=r"store .*(is damaged|is no database)"):
        Database(address(copy.parent))


def test_a_hole_in_a_copy_is_noticed(folder: Path, tmp_path: Path) -> None:
    with Database(address(folder)) as database:
        reported(database, *(f"item {n}" for n in range(30)))
    copy = copied(folder, tmp_path / "copy", "edge.db") / "edge.db"
    data = bytearray(copy.read_bytes())
    data[-8192:] = bytes(8192)
    copy.write_bytes(data)
    with pytest.raises(UserError, match="is damaged"):
        Database(address(copy.parent))


def test_a_kill_at_any_moment_of_a_life_locks_nobody_out(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a kill leaves is what the files are at that moment."""
    moments: list[Path] = []

    def moment(*_: object, **__: object) -> None:
        moments.append(copied(folder, tmp_path / f"{len(moments)}", *FILES))

    def before(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: (moment(), call(*given))[1]

    for name in ("newest", "advance"):
        monkeypatch.setattr(HighWaterMark, name, before(getattr(HighWaterMark, name)))
    kinds = "before_cursor_execute", "after_cursor_execute", "commit"
    for kind in kinds:
        event.listen(Engine, kind, moment)
    try:
        for items in ("a", "b"):
            with Database(address(folder)) as database:
                run = edge(database)
                run.done("ann", items)
                for _ in range(2):
                    run.reporter.step()
                    run.clock.at += 1
                run.reporter.stop()
            moment()
    finally:
        for kind in kinds:
            event.remove(Engine, kind, moment)
        monkeypatch.undo()
    assert len(moments) > 100
    for each in moments[:40] + moments[40::15]:
        new = not (each / "edge.db").stat().st_size
        with Database(address(each)) as opened:
            assert new or opened.key == database.key


def test_a_kill_while_the_first_tables_are_written_locks_nobody_out(
    folder: Path, tmp_path: Path
) -> None:
    """SQLite rolls the file back, to a page without tables."""
    folder.mkdir()
    (folder / "edge.db").touch(mode=0o600)
    with closing(sqlite3.connect(folder / "edge.db", isolation_level=None)) as making:
        making.execute("PRAGMA cache_size = 1")
        making.execute("BEGIN")
        for n in range(50):  # more pages than the cache holds: some are in the file
            making.execute(f"CREATE TABLE t{n} (a)")
        killed = copied(folder, tmp_path / "killed", *FILES)
        making.execute("ROLLBACK")
    assert (killed / "edge.db").stat().st_size
    assert (killed / "edge.db-journal").stat().st_size
    with Database(address(killed)) as database:
        reported(database, "a")


def test_a_file_of_something_else_beside_a_journal_is_a_sentence(folder: Path) -> None:
    folder.mkdir()
    for name in ("edge.db", "edge.db-journal"):
        (folder / name).write_bytes(b"something else" * 1000)
        (folder / name).chmod(0o600)
    with pytest.raises(UserError, match="is no database; give another --store"):
        Database(address(folder))
    assert (folder / "edge.db").stat().st_size == 14_000


def test_no_backup_is_made_of_a_copy_that_would_be_refused(folder: Path, tmp_path: Path) -> None:
    with Database(address(folder)) as database:
        alone = copied(folder, tmp_path / "alone", "edge.db")
        old = copied(folder, tmp_path / "old", "edge.db", "edge.db-wal")
        reported(database, "a")
    copied(folder, old, "edge.db.mark")
    for copy in (alone, old):
        with pytest.raises(OlderJournal, match="copy the newest"):
            backup(address(copy), tmp_path / "backup.db")
        assert not (tmp_path / "backup.db").exists()


def test_an_edge_does_not_start_while_its_file_says_that_it_is_closed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its copy would be taken for a whole store: the reader keeps what was before in the file."""
    monkeypatch.setattr("producers.edge.store.database._BUSY_SECONDS", 0.05)
    with Database(address(folder)):
        pass
    with closing(sqlite3.connect(folder / "edge.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM site").fetchone()
        with pytest.raises(UserError, match="another program reads it; end that one"):
            Database(address(folder))
    with Database(address(folder)):
        pass


def test_a_file_of_something_else_is_left_as_it_is(folder: Path) -> None:
    with Database(address(folder)) as database, database.writing() as connection:
        connection.exec_driver_sql("DROP TABLE site")
    before = (folder / "edge.db").read_bytes()
    with pytest.raises(UserError, match="holds no tables of an edge"):
        Database(address(folder))
    assert (folder / "edge.db").read_bytes() == before


def test_a_store_of_an_earlier_version_is_refused(folder: Path) -> None:
    with Database(address(folder)) as database, database.writing() as connection:
        connection.execute(update(site).where(site.c.name == "version").values(value=b"1"))
    with pytest.raises(UserError, match="is of version 1, this murmurec reads 2; use the one"):
        Database(address(folder))


@pytest.mark.thorough
def test_an_older_copy_of_a_postgresql_is_refused(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    store = postgres.database()
    with Database(store) as database, Database(store) as other:
        reported(database, "a")
        reported(other, "b")
    with Database(store):
        pass
    with psycopg.connect(store) as connection:
        connection.execute("DELETE FROM frames WHERE place > 0")
    with pytest.raises(OlderJournal, match="older copy") as refusal:
        Database(store)
    (mark,) = (tmp_path / "murmurec").iterdir()
    assert f"empty {mark}" in str(refusal.value)
    mark.write_bytes(b"")
    with Database(store):
        pass


@pytest.mark.thorough
def test_a_postgresql_that_cannot_hold_every_id_is_refused(postgres: Server) -> None:
    store = postgres.database()
    name = store.partition("@/")[2].partition("?")[0]
    with psycopg.connect(store, autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE {name}_latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
        )
    with pytest.raises(UserError, match="its encoding is LATIN1"):
        Database(store.replace(name, f"{name}_latin"))
