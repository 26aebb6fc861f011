"""Disks that are full or cannot be read: the program goes on, or ends in one sentence."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import pytest

from producers.daemon.sources.source import Pipe
from producers.daemon.sources.watched_file import Places, WatchedFile
from producers.journal import Journal, PersonBudget
from producers.journal.disk import Disk
from producers.ranking.clean_history import CleanHistory
from stream_app.errors import UserError
from tests.producers.daemon.world import DAY, LOUD, SCOPE, TODAY, device, pseudonym, write


class FaultyDisk(Disk):
    """A disk that refuses to append, or to sync, while it is asked to."""

    full = unsynced = False

    def append(self, handle: int, data: bytes) -> None:
        if self.full:
            os.write(handle, data[: len(data) // 2])
            raise OSError(28, "No space left on device")
        super().append(handle, data)

    def sync(self, handle: int) -> None:
        if self.unsynced:
            raise OSError(5, "Input/output error")
        super().sync(handle)


def enrolled(path: Path, disk: Disk | None = None) -> Journal:
    journal = Journal.open(path, disk=disk)
    journal.enrol([pseudonym(journal, "ann")], PersonBudget(), TODAY - 1)
    return journal


def watching(journal: Journal, path: Path) -> WatchedFile:
    return WatchedFile(path, Places(journal.path), journal.key)


def said(notices: list[str], part: str) -> int:
    return sum(part in sentence for sentence in notices)


def test_a_full_disk_delays_a_report_and_what_is_due_is_drawn_once(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with enrolled(tmp_path / "j", disk) as journal:
        run = device(journal, rotate_every=2)
        disk.full = True
        run.days(2)
        assert run.broker.seen == []
        assert journal.pending() == []
        assert said(run.notices, "the disk is full") == 1
        disk.full = False
        run.days(2)
        assert {len(reports) for reports in run.broker.cells().values()} == {1}
        assert len(run.broker.cells()) == len(SCOPE)
    with Journal.open(tmp_path / "j") as journal:
        assert journal.spent(pseudonym(journal, "ann"))["cell"].reports == len(SCOPE)


def test_a_condition_that_comes_back_is_said_again(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with enrolled(tmp_path / "j", disk) as journal:
        run = device(journal, rotate_every=4)
        for expected in (1, 2):
            disk.full = True
            run.days(1)
            assert said(run.notices, "the disk is full") == expected
            disk.full = False
            run.days(1)


def test_after_a_failed_sync_the_program_ends_and_nothing_of_it_was_sent(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with enrolled(tmp_path / "j", disk) as journal:
        run = device(journal)
        run.daemon.step()
        disk.unsynced = True
        with pytest.raises(UserError, match="the disk cannot be read or written"):
            run.days(1)
        assert run.broker.seen == []
        disk.unsynced = False


def test_no_report_is_made_while_the_ratings_cannot_be_read(tmp_path: Path) -> None:
    with enrolled(tmp_path / "j") as journal:
        ann = pseudonym(journal, "ann")
        journal.raise_budget([ann], Fraction(10**4))
        file = write(tmp_path / "r.csv", "7,4")
        run = device(journal, [watching(journal, file)], mechanism=LOUD)
        run.daemon.step()
        history = CleanHistory(journal.path).path
        kept = history.read_bytes()
        for expected in (1, 2):
            history.unlink()
            history.mkdir()  # which not even the superuser can read
            run.days(0.5)
            write(file, f"{expected},2")
            run.days(1.5)
            assert run.broker.seen == []
            assert said(run.notices, "nothing is reported until it can be read") == expected
            history.rmdir()
            history.write_bytes(kept)
            history.chmod(0o600)
            run.daemon.step()
        run.days(1)
        assert (run.broker.cells()[ann, 7], run.broker.cells()[ann, 2]) == ([3], [1])
        assert run.broker.cells()[ann, 1] == [5]  # in the file before the kept ones were put back


def test_a_program_does_not_start_on_ratings_that_it_cannot_read(tmp_path: Path) -> None:
    with enrolled(tmp_path / "j") as journal:
        CleanHistory(journal.path).path.mkdir()
        with pytest.raises(UserError, match="cannot be read"):
            device(journal)


def test_lines_of_the_kept_ratings_that_are_no_text_are_left_out(tmp_path: Path) -> None:
    with enrolled(tmp_path / "j") as journal:
        history = CleanHistory(journal.path).path
        history.write_bytes(b'\xff\xfe\x00"\n{"device":' + b"[" * 50_000 + b"\n\x00\n")
        history.chmod(0o600)
        run = device(journal, [watching(journal, write(tmp_path / "r.csv", "7,4"))])
        run.days(2)
        assert len(run.broker.cells()) == len(SCOPE)
        assert [row.item for row in CleanHistory(journal.path).read()] == [7]


def test_a_watched_file_that_cannot_be_read_is_named_and_read_once_it_can(tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    with enrolled(tmp_path / "j") as journal:
        run = device(journal, [watching(journal, file)])
        run.daemon.step()
        assert run.notices == []  # it may not exist yet
        for expected in (1, 2):
            file.mkdir()
            for _ in range(3):
                run.daemon.step()
            assert said(run.notices, "r.csv: cannot be read") == expected
            file.rmdir()
            write(file, "7,4", "8,2")
            run.daemon.step()
            assert [row.item for row in CleanHistory(journal.path).read()] == [7, 8]
            file.unlink()
            run.daemon.step()


def test_a_file_that_became_readable_is_read_although_its_stamp_is_that_of_before(
    tmp_path: Path,
) -> None:
    file, real = tmp_path / "r.csv", write(tmp_path / "real", "7,4")
    os.utime(real, (TODAY * DAY, TODAY * DAY))
    with enrolled(tmp_path / "j") as journal:
        source = watching(journal, file)
        file.symlink_to(file)  # a loop, which no user can open
        assert source.take() == []
        assert "cannot be read" in source.trouble
        file.unlink()
        real.rename(file)
        assert [line for _, line in source.take()] == [b"7,4"]
        assert source.trouble == ""


def test_an_input_that_fails_is_named(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)  # reading it fails
    with enrolled(tmp_path / "j") as journal:
        run = device(journal, [Pipe(folder)])
        run.daemon.step()
    os.close(folder)
    assert said(run.notices, "standard input: cannot be read") == 1


@pytest.mark.parametrize(
    "damage",
    ["[" * 100_000, '{"FILE": [1e999, "00"]}', '{"FILE": [-5, "00"]}', '{"FILE": [3, "\\u00e9"]}'],
    ids=["nested", "infinite", "negative", "no hex"],
)
def test_a_damaged_file_of_places_makes_the_file_be_read_again(damage: str, tmp_path: Path) -> None:
    file = write(tmp_path / "r.csv", "7,4")
    with enrolled(tmp_path / "j") as journal:
        Places(journal.path).path.write_text(damage.replace("FILE", str(file)))
        assert [line for _, line in watching(journal, file).take()] == [b"7,4"]
