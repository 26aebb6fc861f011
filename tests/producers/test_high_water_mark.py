"""The mark of a journal finds a copy that was put back, and never stops the journal itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from producers.device import requests as device
from producers.journal import Journal, Message, PersonBudget
from producers.journal.disk import Disk
from producers.journal.high_water_mark import HighWaterMark
from stream_app.errors import OlderJournal
from stream_app.privacy import registry
from tests.producers.journals import TOPIC

ANN, TODAY = bytes(16), 20_000


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with Journal.open(tmp_path / "j") as journal:
        journal.enrol([ANN], PersonBudget(), TODAY)
    return tmp_path / "j"


def release(journal: Journal, item: int) -> Message:
    line = device.ReportSettings(TOPIC, registry.parse("rr:5:1/2"))
    keys, level = np.array([item], np.uint64), np.zeros(1, np.uint8)
    (message,) = journal.release(device.request(level, keys, line, device=ANN, epoch=TODAY))
    return message


def mark_of(path: Path) -> Path:
    with Journal.open(path) as journal:
        return HighWaterMark(journal.key).path


def test_a_copy_that_was_put_back_draws_nothing_and_the_newest_goes_on(path: Path) -> None:
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    with Journal.open(path) as journal:
        release(journal, 1)
        release(journal, 2)
    newest = path.read_bytes()
    shutil.copy(copy, path)
    with Journal.open(path) as journal:
        with pytest.raises(OlderJournal, match=r"has the number 1, and by .* had one with 3"):
            release(journal, 1)
        assert not journal.spent(ANN)
    assert path.read_bytes() == copy.read_bytes()
    path.write_bytes(newest)
    with Journal.open(path) as journal:
        assert release(journal, 3).seq == 3
        journal.compact()
        assert release(journal, 4).seq == 4


def test_of_two_copies_that_are_open_at_once_one_goes_on(path: Path) -> None:
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    with Journal.open(path) as first, Journal.open(copy) as second:
        release(first, 1)
        with pytest.raises(OlderJournal):
            release(second, 1)
        release(first, 2)


@pytest.mark.parametrize("damage", [b"", b"junk", b"\xff" * 20], ids=["empty", "text", "bytes"])
def test_a_damaged_mark_is_as_none_and_is_written_again(path: Path, damage: bytes) -> None:
    with Journal.open(path) as journal:
        release(journal, 1)
    mark = mark_of(path)
    assert (int(mark.read_bytes()), mark.stat().st_mode & 0o777) == (2, 0o600)
    mark.write_bytes(damage)
    with Journal.open(path) as journal:
        release(journal, 2)
    assert int(mark.read_bytes()[:20]) == 3


@pytest.mark.parametrize("folder", ["a file", "no home"])
def test_a_state_folder_that_refuses_stops_nothing(
    folder: str, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if folder == "a file":
        (tmp_path / "state").touch()
    else:
        monkeypatch.setenv("XDG_STATE_HOME", "~nobody-has-this-name/state")
    with Journal.open(path) as journal:
        assert release(journal, 1).seq == 1
        assert release(journal, 2).seq == 2


def test_a_journal_on_a_disk_of_its_own_has_no_mark(path: Path) -> None:
    with Journal.open(path, disk=Disk()) as journal:
        release(journal, 1)
    assert not mark_of(path).exists()
