"""The journal's own file against SQLite: the time of a release, and what damage goes unnoticed.

    own file        a frame, fdatasync                        (`producers.journal.append_log`)
    SQLite, WAL     insert the record, update the checksum of all records; synchronous = FULL
    checkpointed    the same, and a checkpoint after every release, so that the WAL may be lost
    rollback        no WAL: journal_mode = TRUNCATE, synchronous = EXTRA

All write the same records at the same moments: synced after a release, unsynced after its delivery
report. Each holds `KEPT` releases; they take turns on one disk, syncs included. For damage, a
journal that was not closed is copied, and one bit of one file is flipped in each copy. A copy that
opens without an error and has forgotten a release that was durable spends its epsilon a second
time. Damage of the last release looks like a torn write in every form and is not counted.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from producers.device import requests as device
from producers.journal import Journal, Limits
from producers.journal.append_log import Log
from producers.journal.disk import Disk
from producers.journal.frames import Frame, Kind
from producers.journal.journal import OUTBOX_BYTES
from producers.person.enrolment import NO_LIMIT
from stream_app.errors import UserError
from stream_app.privacy import registry
from stream_app.privacy.randomness import SystemSource
from tests.benchmarks.figure import Figure
from tests.producers.journals import ANN, TOPIC

KEPT, TURNS, RELEASES = 10_000, 10, 40
DAMAGED, BITS = 24, 400  # releases of a journal that is damaged; bits that are flipped, one a copy
LINE = device.ReportSettings(TOPIC, registry.parse("rr:5:2"))


class SometimesSynced(Disk):
    """The real disk, which syncs only while `synced`."""

    synced = True

    def sync(self, handle: int) -> None:
        if self.synced:
            super().sync(handle)


@dataclass(frozen=True)
class Form:
    """A way to store records: `mode` is SQLite's journal_mode, empty for the journal's own file."""

    name: str
    mode: str = ""
    synchronous: str = "full"
    checkpointed: bool = False

    def open(self, path: Path, disk: SometimesSynced) -> Journal:
        """Open a journal whose records are stored in this form."""
        log: Any = SqliteLog(path, self, disk) if self.mode else Log(path, disk)
        return Journal(log, Limits(), SystemSource(), OUTBOX_BYTES, test=False)


FORMS = (
    Form("own file"),
    Form("SQLite, WAL", "wal"),
    Form("SQLite, WAL, checkpointed", "wal", checkpointed=True),
    Form("SQLite, rollback", "truncate", "extra"),
)


class SqliteLog:
    """Records as rows, with the interface of `append_log.Log`; the checksum covers all rows."""

    made, cut, usable = False, 0, True

    def __init__(self, path: Path, form: Form, disk: SometimesSynced) -> None:
        self.path, self.size, self.unvouched = path, 0, False
        self._form, self._disk = form, disk
        self._db = sqlite3.connect(path, isolation_level=None)
        for setting in ("locking_mode = exclusive", f"journal_mode = {form.mode}"):
            self._db.execute(f"pragma {setting}")
        self._db.execute(
            "create table if not exists record(id integer primary key, kind integer, body blob)"
        )
        self._db.execute(
            "create table if not exists head(id integer primary key, key blob, checksum integer)"
        )
        self._db.execute("insert or ignore into head values(1, ?, 0)", (os.urandom(32),))
        self.key, expected = self._db.execute("select key, checksum from head").fetchone()
        rows = self._db.execute("select id, kind, body from record order by id").fetchall()
        self.frames = tuple(Frame(Kind(kind), memoryview(body), id) for id, kind, body in rows)
        self._checksum = 0
        for _, _, body in rows:
            self._checksum = zlib.crc32(body, self._checksum)
        if self._checksum != expected:
            raise UserError("device journal: its records do not have their checksum")

    def append(self, records: Sequence[tuple[Kind, bytes]], *, durable: bool) -> None:
        """Add records in one transaction."""
        level = self._form.synchronous if durable else "normal"
        self._db.execute(f"pragma synchronous = {level if self._disk.synced else 'off'}")
        self._db.execute("begin immediate")
        for kind, body in records:
            self._db.execute("insert into record(kind, body) values(?, ?)", (int(kind), body))
            self._checksum = zlib.crc32(body, self._checksum)
        self._db.execute("update head set checksum = ?", (self._checksum,))
        self._db.execute("commit")
        self.unvouched = durable
        if durable and self._form.checkpointed:
            self._db.execute("pragma wal_checkpoint(passive)").fetchall()

    def close(self) -> None:
        """Close the database."""
        self._db.close()


def measure() -> list[Figure]:
    """Return the times of a release, against the own file in the same turn, and the damage."""
    return [*_times(), *_damage()]


def _release(journal: Journal, item: int) -> float:
    started = perf_counter()
    key, level = np.array([item], np.uint64), np.zeros(1, np.uint8)
    (message,) = journal.release(device.request(level, key, LINE, device=ANN, epoch=20_000))
    taken = perf_counter() - started
    journal.acknowledge(message.number)
    return taken


def _filled(form: Form, folder: Path, disk: SometimesSynced, releases: int) -> Journal:
    folder.mkdir()
    journal = form.open(folder / "journal", disk)
    journal.enrol([ANN], NO_LIMIT, 1, simulated=True)
    for item in range(releases):
        _release(journal, item)
    return journal


def _times() -> Iterator[Figure]:
    disk, taken = SometimesSynced(), {form: list[list[float]]() for form in FORMS}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        disk.synced = False
        journals = {
            form: opened.enter_context(_filled(form, Path(folder) / form.name, disk, KEPT))
            for form in FORMS
        }
        disk.synced = True
        for turn in range(TURNS):
            first = KEPT + turn * RELEASES
            for form in FORMS[:: -1 if turn % 2 else 1]:
                taken[form].append(
                    [_release(journals[form], item) for item in range(first, first + RELEASES)]
                )
    for form in FORMS:
        turns = [
            median(ours) / median(own)
            for ours, own in zip(taken[form], taken[FORMS[0]], strict=True)
        ]
        times = sorted(one for turn in taken[form] for one in turn)
        name = f"journal store: {form.name}, {KEPT:,} kept, a release"
        yield Figure(f"{name}, p50", median(times) * 1e6, "us")
        yield Figure(f"{name}, p99", times[len(times) * 99 // 100] * 1e6, "us")
        if form.mode:
            against = f"{name}, of the own file's"
            yield Figure(against, median(turns), "x", low=min(turns), high=max(turns))


def _damage() -> Iterator[Figure]:
    for form in FORMS:
        with tempfile.TemporaryDirectory() as folder:
            whole = Path(folder) / "whole"
            with _filled(form, whole, SometimesSynced(), DAMAGED) as journal:
                key = journal.key
                forgotten = sum(_forgets(form, whole, key, place) for place in range(BITS))
        name = f"journal store: {form.name}, flipped bits that undo releases without an error"
        yield Figure(name, forgotten / BITS * 100, "%", "" if form.mode else "<= 0")


def _forgets(form: Form, whole: Path, key: bytes, place: int) -> bool:
    """Return whether a copy with one flipped bit opens, with its key, without a release."""
    copy = whole.with_name("copy")
    shutil.copytree(whole, copy)
    try:
        files = [each for each in sorted(copy.iterdir()) if not each.name.endswith("-shm")]
        sizes = [each.stat().st_size for each in files]
        at = sum(sizes) * place // BITS
        for file, size in zip(files, sizes, strict=True):
            if 0 <= at < size:
                data = bytearray(file.read_bytes())
                data[at] ^= 1 << place % 8
                file.write_bytes(data)
            at -= size
        with form.open(copy / "journal", SometimesSynced()) as journal:
            return journal.key == key and journal.seq(ANN, TOPIC) < DAMAGED - 1
    except (UserError, ValueError, sqlite3.Error):
        return False
    finally:
        shutil.rmtree(copy)
