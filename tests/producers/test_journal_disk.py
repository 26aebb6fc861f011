"""A disk that fails: one sentence, and file and budget are unchanged."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from producers.journal import (
    Journal,
    Request,
    read_key,
)
from producers.journal.disk import Disk
from stream_app.errors import UserError
from stream_app.privacy import registry
from tests.producers.conftest import TOPIC
from tests.producers.journals import ANN, RR, at, release


class Failing(Disk):
    """A disk on which one chosen call fails."""

    def __init__(self, call: str, number: int) -> None:
        self.call, self.number = call, number

    def _fail(self, call: str) -> None:
        if call == self.call:
            raise OSError(self.number, os.strerror(self.number))

    def append(self, handle: int, data: bytes) -> None:
        if self.call == "append":
            super().append(handle, data[: len(data) // 2])
        self._fail("append")
        super().append(handle, data)

    def sync(self, handle: int) -> None:
        self._fail("sync")
        super().sync(handle)

    def rename(self, path: Path, to: Path) -> None:
        self._fail("rename")
        super().rename(path, to)


@pytest.fixture
def failing(path: Path) -> Iterator[tuple[Journal, Failing]]:
    disk = Failing("", 0)
    with at(path, disk=disk) as journal:
        release(journal, ANN, 1)
        yield journal, disk
        disk.call = ""


@pytest.mark.parametrize(
    ("number", "sentence"),
    [(errno.EROFS, "is read-only; make it writable or give another path .--journal."),
     (errno.EACCES, "cannot be used .Permission denied.; give another path .--journal."),
     (errno.EIO, "the disk cannot be read or written"), (errno.ENOSPC, "the disk is full")],
)  # fmt: skip
def test_a_file_that_cannot_be_opened_is_one_sentence(
    number: int, sentence: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(UserError, match=sentence):
        at(path)


def test_a_journal_that_may_not_be_written_is_one_sentence(path: Path) -> None:
    with at(path):
        pass
    path.chmod(0o400)
    if os.access(path, os.W_OK):
        pytest.skip("the superuser may write everywhere")
    with pytest.raises(UserError, match=r"cannot be used .Permission denied."):
        at(path)


def test_a_link_to_a_journal_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link, real = tmp_path / "link", tmp_path / "there" / "real"
    link.symlink_to(real)
    with at(link) as journal:
        release(journal, ANN, 1)
        journal.compact()
    assert link.is_symlink()
    with at(real) as journal:
        assert len(journal.pending()) == 1


def test_a_file_planted_for_the_compaction_does_not_get_the_key(journal: Journal) -> None:
    planted = journal.path.with_name(f"{journal.path.name}.new")
    planted.touch(0o666)
    before = planted.open("rb")
    release(journal, ANN, 1)
    journal.compact()
    with before:
        assert before.read() == b""
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600


def test_a_full_disk_leaves_the_file_as_it_was_and_the_journal_usable(
    failing: tuple[Journal, Failing],
) -> None:
    journal, disk = failing
    before = journal.path.read_bytes()
    disk.call, disk.number = "append", 28
    with pytest.raises(UserError, match=r"the disk is full; free some space"):
        release(journal, ANN, 2)
    assert journal.path.read_bytes() == before
    disk.call = ""
    assert release(journal, ANN, 2)[0].seq == 2


def test_after_a_sync_that_failed_nothing_is_given_out_any_more(
    failing: tuple[Journal, Failing],
) -> None:
    journal, disk = failing
    disk.call, disk.number = "sync", 5
    with pytest.raises(UserError, match="the disk cannot be read or written; check it"):
        release(journal, ANN, 2)
    disk.call = ""
    with pytest.raises(UserError, match="an earlier write failed; open it again"):
        release(journal, ANN, 2)
    assert len(journal.pending()) == 1


def test_a_compaction_that_fails_keeps_the_old_file(failing: tuple[Journal, Failing]) -> None:
    journal, disk = failing
    before = journal.path.read_bytes()
    for call in ("append", "sync", "rename"):
        disk.call, disk.number = call, 28
        with pytest.raises(UserError, match="the disk is full"):
            journal.compact()
        assert journal.path.read_bytes() == before
        assert [file.name for file in journal.path.parent.iterdir()] == [journal.path.name]
    disk.call = ""
    assert release(journal, ANN, 2)[0].seq == 2


def test_what_was_recorded_is_given_out_also_where_the_disk_has_no_room_to_compact(
    failing: tuple[Journal, Failing], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, disk = failing
    monkeypatch.setattr("producers.journal.journal._COMPACTED_FROM", 100)
    disk.call, disk.number = "rename", 28
    for item in range(2, 12):
        assert [message.seq for message in release(journal, ANN, item)] == [item]
    assert len(journal.pending()) == 11


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=["full", "unreadable"])
@pytest.mark.parametrize(
    "call", ["create", "append", "sync", "rename", "sync_folder", "close", "remove"]
)
def test_a_release_that_is_durable_is_given_out_whatever_fails_in_a_compaction(
    call: str, number: int, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call that a compaction makes; the next release succeeds, or says that it cannot."""
    disk = FailingCompaction(call, number)
    with at(path, disk=disk) as journal:
        release(journal, ANN, 1)
        monkeypatch.setattr("producers.journal.journal._COMPACTED_FROM", 0)
        disk.armed, disk.new = True, -1
        (given,) = release(journal, ANN, 2)
        assert disk.failed == 1
        # Once the new file has the name and that may not be durable, nothing more is recorded.
        unsure = call in ("close", "sync_folder")
        refused = pytest.raises(UserError, match="an earlier write failed; open it again")
        with refused if unsure else nullcontext():
            release(journal, ANN, 3)
        disk.armed = False
    with at(path) as again:
        assert given in again.pending()
        assert len(again.pending()) == again.seq(ANN, TOPIC) >= 2
        assert not again.unreported(ANN, np.array([1, 2], np.uint64)).any()


def test_a_journal_of_too_many_mechanisms_to_compact_goes_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [registry.parse(f"rr:5:1/{n}") for n in range(2, 262)]
    with at(path) as journal:
        for item, mechanism in enumerate(many):
            release(journal, ANN, item, mechanism=mechanism)
        monkeypatch.setattr("producers.journal.journal._COMPACTED_FROM", 0)
        monkeypatch.setattr(journal, "_compacted", 0)
        assert [message.seq for message in release(journal, ANN, 1000)] == [261]
        with pytest.raises(UserError, match=r"more than 256 different .* it stays as it is"):
            journal.compact()
    with at(path) as again:
        assert len(again.pending()) == 261


class FailingCompaction(Disk):
    """A disk on which one call on the file that a compaction writes fails, once."""

    def __init__(self, call: str, number: int) -> None:
        self.call, self.number, self.armed, self.failed, self.new = call, number, False, 0, -1

    def _fail(self, call: str, *, new: bool) -> None:
        if self.armed and new and call == self.call and not self.failed:
            self.failed += 1
            raise OSError(self.number, os.strerror(self.number))

    def create(self, path: Path) -> int:
        self._fail("create", new=True)
        self.new = super().create(path)
        return self.new

    def append(self, handle: int, data: bytes) -> None:
        self._fail("append", new=handle == self.new)
        super().append(handle, data)

    def sync(self, handle: int) -> None:
        self._fail("sync", new=handle == self.new)
        super().sync(handle)

    def rename(self, path: Path, to: Path) -> None:
        self._fail("rename", new=True)
        super().rename(path, to)

    def sync_folder(self, path: Path) -> None:
        self._fail("sync_folder", new=True)
        super().sync_folder(path)

    def close(self, handle: int) -> None:
        super().close(handle)
        self._fail("close", new=True)

    def remove(self, path: Path) -> None:
        self._fail("remove", new=True)
        super().remove(path)


def test_the_lock_of_a_file_that_was_replaced_meanwhile_is_not_taken(path: Path) -> None:
    for other in (path, path.with_name("newer")):
        at(other).close()
    newer = read_key(path.with_name("newer"))

    class Compacted(Disk):
        """Another process compacts between opening and locking."""

        locked = 0

        def lock(self, handle: int) -> None:
            if not self.locked:
                path.with_name("newer").rename(path)
            self.locked += 1
            super().lock(handle)

    disk = Compacted()
    with at(path, disk=disk) as journal:
        assert journal.key == newer
    assert disk.locked == 2


@pytest.mark.parametrize("reported_keys", [[], [3, 3], [4, 3]], ids=str)
def test_reported_keys_must_be_rising_and_distinct(reported_keys: list[int]) -> None:
    with pytest.raises(ValueError, match="rising, distinct keys"):
        Request(
            device=ANN, topic=TOPIC, reported_keys=np.array(reported_keys, np.uint64), mechanism=RR,
            raw_inputs=np.zeros(1, np.uint8), count=1, epoch=1,
            encode=lambda seq, part, released, test: b"",
        )  # fmt: skip


def test_a_file_that_may_not_grow_is_one_sentence(path: Path) -> None:
    program = f"""
import resource
from pathlib import Path
from stream_app.errors import UserError
from stream_app.privacy import registry
from tests.producers.journals import ANN, at, release
path = Path({str(path)!r})
with at(path) as journal:
    release(journal, ANN, 1)
    before = path.read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 50, resource.RLIM_INFINITY))
    try:
        release(journal, ANN, 2)
    except UserError as refusal:
        print(refusal)
    print(path.read_bytes() == before)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(release(journal, ANN, 2)[0].seq)
"""
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    sentence, unchanged, seq = out.stdout.splitlines()
    assert "the file may not grow any more; raise the limit" in sentence
    assert (unchanged, seq) == ("True", "2")


def test_an_interrupt_in_the_middle_of_a_commit_ends_the_use_of_the_journal(
    failing: tuple[Journal, Failing], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, disk = failing

    def interrupted(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(disk, "sync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        release(journal, ANN, 2)
    with pytest.raises(RuntimeError, match="interrupted while it wrote; open it again"):
        release(journal, ANN, 3)
    journal.close()
    with at(journal.path) as again:
        assert [message.seq for message in again.pending()] == [1]


def test_a_file_that_is_no_journal_is_refused_before_its_mode_is_checked(
    path: Path,
) -> None:
    path.write_text("hello")
    path.chmod(0o644)
    with pytest.raises(UserError, match="is not a device journal"):
        at(path)
    path.unlink()
    with at(path) as journal:
        assert journal.made
    path.chmod(0o644)
    with pytest.raises(UserError, match="run chmod 600"):
        at(path)


def test_a_note_for_which_the_disk_has_no_room_waits(
    failing: tuple[Journal, Failing],
) -> None:
    journal, disk = failing
    (message,) = journal.pending()
    before = journal.path.read_bytes()
    disk.call, disk.number = "append", 28
    journal.acknowledge(message.number)
    disk.call = ""
    assert journal.path.read_bytes() == before
    release(journal, ANN, 2)
    journal.close()
    with at(journal.path) as again:
        assert [message.seq for message in again.pending()] == [2]
