"""What a reader finds of a file whose writing failed: the old content or the new."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import BinaryIO

import pytest

from stream_app.kafka import durable_file

WRITTEN = {
    "bytes": b"new",
    "a function": lambda file: (file.write(b"n"), file.write(b"ew")),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    return path


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.parent.iterdir())


@pytest.mark.parametrize("content", WRITTEN.values(), ids=WRITTEN)
def test_a_file_is_replaced_and_nothing_stays_beside_it(path, content):
    durable_file.replace(path, content)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert names(path) == ["a"]


def test_a_shared_file_has_the_mode_that_the_umask_leaves(path):
    before = os.umask(0o027)
    try:
        durable_file.replace(path, b"new", durable_file.SHARED)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_failed_write_leaves_the_old_file(path):
    def full(file: BinaryIO) -> None:
        file.write(b"ne")
        raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"):
        durable_file.replace(path, full)
    assert path.read_bytes() == b"old"
    assert names(path) == ["a"]


@pytest.mark.parametrize("failing", [1, 2])
def test_content_is_durable_before_its_name_and_the_name_before_the_return(
    path, monkeypatch, failing
):
    synced: list[bytes] = []

    def fsync(_: int) -> None:
        synced.append(path.read_bytes())  # under its name at this time
        if len(synced) == failing:
            raise OSError(errno.EIO, "no disk")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="no disk"):
        durable_file.replace(path, b"new")
    assert synced == [b"old", b"new"][:failing]


def test_an_existing_file_is_not_created_again(path):
    with pytest.raises(FileExistsError) as caught:
        durable_file.create(path, b"new")
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old"


def test_a_link_is_not_followed_where_a_file_is_created(tmp_path, path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        durable_file.create(tmp_path / "link", b"new")
