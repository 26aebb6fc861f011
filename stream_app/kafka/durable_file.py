"""Files that a power cut leaves whole: the old content or the new, and never a part.

    replace    write .NAME.RANDOM.part, fsync it, rename it to NAME, fsync the folder
    create     make NAME, which must not exist, write and fsync it

What a process keeps beside its topics: the keys of a party, snapshots, tables that wait for their
topic, caches. The part has a random name, so two processes never write to one; a failed write
removes its part, and a killed one leaves it. Every function raises OSError as the system does.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

PRIVATE = 0o600
"""Readable by the owner alone."""
SHARED = 0o666
"""Readable by others as far as the umask of the process allows."""


def replace(path: Path, content: bytes | Callable[[BinaryIO], object], mode: int = PRIVATE) -> None:
    """Replace the file at `path` at once; returns when content and name survive a power cut.

    content: the bytes, or a function that writes them to an open file. mode: of the new file.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        create(part, content, mode)
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    sync_folder(path.parent)


def create(path: Path, content: bytes | Callable[[BinaryIO], object], mode: int = PRIVATE) -> None:
    """Write a new file; returns when its content survives a power cut, and its name once the folder
    is synced. FileExistsError where there is one, or a link."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "wb") as file:
        if callable(content):
            content(file)
        else:
            file.write(content)
        file.flush()
        os.fsync(handle)


def sync_folder(folder: Path) -> None:
    """Return when the names of the files in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
