"""The file of a table that waits for its topic: whole, private, or one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.errors import UserError
from stream_app.operations.similarities.pending import PendingFile, PendingTable

TABLE = PendingTable(3, 12, b"bytes of a table")


@pytest.fixture
def waiting(tmp_path: Path) -> PendingFile:
    return PendingFile.of_deployment(tmp_path, "localhost:9092", "murmurec")


def test_what_is_written_is_read_until_it_is_removed(waiting: PendingFile) -> None:
    assert waiting.read() is None
    waiting.write(PendingTable(2, 11, b"older"))
    waiting.write(TABLE)
    assert waiting.read() == TABLE
    assert waiting.path.stat().st_mode & 0o777 == 0o600
    waiting.remove()
    waiting.remove()
    assert waiting.read() is None


def test_deployments_have_files_of_their_own(tmp_path: Path, waiting: PendingFile) -> None:
    waiting.write(TABLE)
    assert PendingFile.of_deployment(tmp_path, "localhost:9092", "other").read() is None
    assert PendingFile.of_deployment(tmp_path, "localhost:9093", "murmurec").read() is None


def test_every_damaged_file_is_refused(waiting: PendingFile) -> None:
    waiting.write(TABLE)
    whole = waiting.path.read_bytes()
    for place in range(len(whole)):
        waiting.path.write_bytes(whole[:place])
        with pytest.raises(UserError, match="holds no table"):
            waiting.read()
        flipped = bytes([whole[place] ^ 1])
        waiting.path.write_bytes(whole[:place] + flipped + whole[place + 1 :])
        with pytest.raises(UserError, match="remove it: its debit counts"):
            waiting.read()


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "similarities").write_text("a file")
    with pytest.raises(UserError, match="the table was not sent, and its debit counts"):
        PendingFile.of_deployment(tmp_path, "a", "b").write(TABLE)
