"""The journal's file: the key, the order of writes, compaction, damage."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from producers.journal import (
    Journal,
    read_journal,
    read_key,
)
from producers.journal.disk import Disk
from stream_app.errors import UserError
from tests.producers.journals import ANN, ask, at, release


def test_the_key_is_made_once_and_shown_to_nobody(tmp_path: Path) -> None:
    path = tmp_path / "here" / "device.journal"
    with at(path) as journal:
        key = journal.key
        assert len(key) == 32
        assert key.hex() not in repr(journal)
        assert repr(key) not in repr(journal)
    with at(path) as journal:
        assert journal.key == key
    assert read_key(path) == key
    assert repr(key) not in repr(read_journal(path))
    with at(tmp_path / "other") as other:
        assert other.key != key


def test_nobody_else_may_open_what_holds_the_key(path: Path) -> None:
    old = os.umask(0)
    try:
        with at(path) as journal:
            release(journal, ANN, 1)
            journal.compact()
            for file in path.parent.iterdir():
                assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    finally:
        os.umask(old)
    path.chmod(0o644)
    with pytest.raises(UserError, match=r"others can open it .mode 644.*chmod 600"):
        at(path)


def test_a_second_process_gets_one_sentence_and_may_look(journal: Journal) -> None:
    release(journal, ANN, 1)
    program = f"""
from producers.journal import Journal, read_journal, read_key
from stream_app.errors import UserError
print(read_key({str(journal.path)!r}).hex(), read_journal({str(journal.path)!r}).pending)
try:
    Journal.open({str(journal.path)!r})
except UserError as refusal:
    print(refusal)
"""
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    key, sentence = out.stdout.splitlines()
    assert key == f"{journal.key.hex()} 1"
    assert "another process is using it" in sentence
    assert "--journal" in sentence
    journal.compact()  # another file has the name now; its lock is held as well
    with pytest.raises(UserError, match="another process is using it"):
        at(journal.path)
    assert release(journal, ANN, 2)[0].seq == 2


def test_the_journal_is_free_again_when_its_process_is_gone(journal: Journal) -> None:
    journal.close()
    journal.close()
    with at(journal.path) as again:
        assert again.key == journal.key


def test_what_is_no_journal_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(os.urandom(5000))
    (tmp_path / "sqlite").write_bytes(b"SQLite format 3\0" + bytes(4096))
    for file in tmp_path.iterdir():
        file.chmod(0o600)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    for name, sentence in {
        ".": "is a directory", "noise": "is not a device journal",
        "sqlite": "is a device store of an earlier murmurec, which cannot be read",
        "noise/below": "cannot be used", "/dev/full": "is not a plain file",
    }.items():  # fmt: skip
        with pytest.raises(UserError, match=sentence) as caught:
            at(tmp_path / name)
        assert str(caught.value).startswith("device journal ")
        assert "--journal" in str(caught.value)
    assert before == {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(UserError, match="there is none"):
        read_key(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_damage_is_refused_with_its_position_and_a_torn_end_is_cut(path: Path) -> None:
    with at(path) as journal:
        release(journal, ANN, 1)
        place = path.stat().st_size
        release(journal, ANN, 2)
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    with at(path) as journal:
        assert [message.seq for message in journal.pending()] == [1, 2]
    damaged = bytearray(whole)
    damaged[place + 30] ^= 4
    path.write_bytes(damaged)
    with pytest.raises(
        UserError, match=rf"damaged at byte {place} of {len(whole)}; nothing is sent"
    ):
        at(path)
    assert path.read_bytes() == damaged
    path.write_bytes(whole[: place + 30])
    with at(path, disk=Disk()) as journal:  # a crash before the release ended, and no older copy
        assert [message.seq for message in journal.pending()] == [1]
        assert release(journal, ANN, 2)[0].seq == 2
    assert path.stat().st_size > place


def test_damage_of_the_last_record_is_seen_from_its_first_delivery_report_on(
    path: Path,
) -> None:
    journal = at(path)
    release(journal, ANN, 1)
    place = path.stat().st_size
    (message,) = release(journal, ANN, 2)
    assert path.stat().st_size > place
    journal.acknowledge(message.number)  # and then the process is gone: nothing was closed
    damaged = bytearray(path.read_bytes())
    damaged[place + 30] ^= 4
    copy = path.with_name("copy")
    copy.touch(0o600)
    copy.write_bytes(damaged)
    with pytest.raises(UserError, match=f"damaged at byte {place}"):
        at(copy)
    size = path.stat().st_size
    for given in journal.commit([ask(ANN, item) for item in range(3, 30)]):
        journal.acknowledge(given.number)
    more = path.stat().st_size - size
    assert more < 27 * 250  # one note for a record, not one for each message
    journal.close()


class Recording(Disk):
    """A disk that remembers which folders were synced, and that no journal was there yet."""

    def __init__(self) -> None:
        self.synced: list[Path] = []

    def sync_folder(self, path: Path) -> None:
        super().sync_folder(path)
        self.synced.append(path.parent)


def test_new_folders_outlive_a_power_cut_before_there_is_a_key_in_them(tmp_path: Path) -> None:
    (tmp_path / "by a life that was killed").mkdir()
    path = tmp_path / "by a life that was killed" / "b" / "c" / "device.journal"
    disk = Recording()
    os.close(disk.open(path))
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    synced = {folder for folder in disk.synced if tmp_path in (folder, *folder.parents)}
    assert synced == {tmp_path, path.parents[2], path.parents[1]}
    disk.synced.clear()
    os.close(disk.open(path))
    assert disk.synced == []


def test_a_record_is_on_the_disk_before_it_is_given_out(path: Path) -> None:
    program = f"""
import os, signal
from tests.producers.journals import ANN, at, release
from pathlib import Path
journal = at(Path({str(path)!r}))
(message,) = release(journal, ANN, 7)
print(message.value.hex(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ended.returncode == -9, ended.stderr
    with at(path) as journal:
        (message,) = journal.pending()
        assert message.value.hex() == ended.stdout.strip()
        with pytest.raises(UserError, match="published already"):
            release(journal, ANN, 7)
