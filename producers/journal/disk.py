"""The calls to the operating system that a journal is made of, one method each.

A test puts another disk in this place, which can stop after every one of them and forget what was
not synced. Each promises what POSIX promises: written bytes are in the file for whoever reads it,
but only `sync` makes them outlive a power cut; a rename replaces a file at once and whole, but only
`sync_folder` makes it outlive a power cut.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

_SYNC = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


class Disk:
    """The real disk; handles are file descriptors, and an open journal holds the file's lock."""

    def open(self, path: Path) -> int:
        """Open `path`, or make it empty with mode 0600, and take its lock; BlockingIOError when it
        is taken."""
        if not path.exists():
            self._make_folders(path)
        while True:
            handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Compaction puts another file in this place: the lock of the old one is worthless.
                if os.path.samestat(os.fstat(handle), path.stat()):
                    return handle
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)

    def _make_folders(self, path: Path) -> None:
        """Make the missing folders above `path`, with names that outlive a power cut."""
        folders = list(path.parents)
        missing = [folder for folder in folders if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True, mode=0o700)
        # Also those that are there: a process that was killed may have made them and not synced.
        for folder in reversed(folders):
            try:
                self.sync_folder(folder)
            except OSError:
                if folder in missing:
                    raise  # one that is older may be closed to us, and is durable then

    def create(self, path: Path) -> int:
        """Make an empty file with mode 0600 in place of any other at `path`, locked."""
        self.remove(path)  # whoever made that may read it
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        handle = os.open(path, flags, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        return handle

    def mode(self, handle: int) -> int:
        """Return the file's type and permissions."""
        return os.fstat(handle).st_mode

    def read(self, handle: int) -> bytes:
        """Return all bytes of the file."""
        with open(handle, "rb", closefd=False) as file:
            file.seek(0)
            return file.read()

    def append(self, handle: int, data: bytes) -> None:
        """Write at the end of the file; after an OSError some of it may be there."""
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]

    def truncate(self, handle: int, size: int) -> None:
        """Cut the file to its first `size` bytes."""
        os.ftruncate(handle, size)

    def sync(self, handle: int) -> None:
        """Return when what is in the file outlives a power cut."""
        _SYNC(handle)

    def rename(self, path: Path, to: Path) -> None:
        """Put the file at `path` in the place of `to`."""
        path.rename(to)

    def sync_folder(self, path: Path) -> None:
        """Return when the name of the file at `path` outlives a power cut."""
        folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""
        path.unlink(missing_ok=True)

    def close(self, handle: int) -> None:
        """Close the file and give its lock back."""
        os.close(handle)
