"""Other journals in the folder: of the same person, copies, and damaged ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from producers.identities import Identities
from producers.journal import Journal, PersonBudget
from producers.journal.frames import HEADER_BYTES
from producers.siblings import check_only_journal
from stream_app.errors import UserError
from tests.producers.journals import ask

TODAY = 20_000


def enrolled(path: Path, releases: int = 1) -> Path:
    with Journal.open(path) as journal:
        device = Identities(journal.key).pseudonym("ann")
        journal.enrol([device], PersonBudget(), TODAY)
        for item in range(releases):
            journal.release(ask(device, item))
    return path


def refusal(path: Path) -> str:
    with Journal.open(path) as journal, pytest.raises(UserError) as raised:
        check_only_journal(journal, ["ann"])
    return str(raised.value)


def test_a_backup_in_the_same_folder_is_named_as_a_copy_to_be_moved(tmp_path: Path) -> None:
    path = enrolled(tmp_path / "j", 3)
    backup = tmp_path / "j.backup"
    shutil.copy(path, backup)
    with Journal.open(path) as journal:
        journal.release(ask(Identities(journal.key).pseudonym("ann"), 99))
    found = refusal(path)
    assert f"device journal {backup}: is an older copy of {path}" in found
    assert "move it to another folder" in found
    assert f"--journal {backup}" not in found  # that would spend a spent budget again
    assert f"device journal {backup}: is an older copy of {path}" in refusal(backup)
    assert f"give --journal {path}" in refusal(backup)


def test_of_two_equal_copies_one_is_to_be_moved(tmp_path: Path) -> None:
    path = enrolled(tmp_path / "j")
    shutil.copy(path, tmp_path / "k")
    assert f"device journal {tmp_path / 'k'}: is a copy of {path}" in refusal(path)


@pytest.mark.parametrize("where", [HEADER_BYTES - 50, HEADER_BYTES + 30])
def test_a_damaged_journal_in_the_folder_is_no_way_to_a_second_budget(
    where: int, tmp_path: Path
) -> None:
    path = enrolled(tmp_path / "j")
    data = bytearray(path.read_bytes())
    data[where] ^= 1
    path.write_bytes(data)
    found = refusal(tmp_path / "new")
    assert f"device journal {path}: cannot be read" in found
    assert "restore it" in found
    assert "move it to another folder" in found
    path.rename(tmp_path.parent / "elsewhere")
    with Journal.open(tmp_path / "new") as journal:
        check_only_journal(journal, ["ann"])


def test_what_a_compaction_left_behind_is_no_other_journal(tmp_path: Path) -> None:
    path = enrolled(tmp_path / "j")
    shutil.copy(path, tmp_path / "j.new")
    with Journal.open(path) as journal:
        check_only_journal(journal, ["ann"])
    with Journal.open(tmp_path / "other") as journal, pytest.raises(UserError, match="/j: holds"):
        check_only_journal(journal, ["ann"])
