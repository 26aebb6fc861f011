"""The operating-system calls of a journal, one method each.

A test replaces the disk by one that can stop after every call and forget what was not synced. The
promises are those of POSIX: written bytes are visible to every reader of the file, but only `sync`
makes them survive a power cut; a rename replaces a file at once and whole, but only `sync_folder`
makes it survive a power cut.

The lock is the operating system's (flock, or LockFileEx on Windows, both by `filelock`). It belongs
to the open file: it ends with the process, however the process ends.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from filelock import lock_descriptor

_SYNC = getattr(os, "fdatasync", os.fsync)  # macOS and Windows have no fdatasync
_PRIVATE = getattr(os, "O_CLOEXEC", 0)  # a program that the device starts does not inherit the lock
_BYTES = os.O_RDWR | os.O_APPEND | os.O_CREAT | _PRIVATE | getattr(os, "O_BINARY", 0)


class Disk:
    """The real disk; handles are file descriptors, and an open journal holds the file's lock."""

    def open(self, path: Path) -> int:
        """Open `path`, or create it empty with mode 0600, and lock it.

        BlockingIOError if another process, or another handle of this one, holds the lock.
        """
        if not path.exists():
            self._make_folders(path)
        while True:
            handle = os.open(path, _BYTES, 0o600)
            try:
                self.lock(handle)
                # Compaction replaces the file: the lock of a replaced file protects nothing.
                if os.path.samestat(os.fstat(handle), path.stat()):
                    return handle
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)

    def lock(self, handle: int) -> None:
        """Lock an open file; BlockingIOError if the lock is held, OSError if there are no locks."""
        if not lock_descriptor(handle, blocking=False):
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK))

    def _make_folders(self, path: Path) -> None:
        """Create the missing folders above `path`, with names that survive a power cut."""
        folders = list(path.parents)
        missing = [folder for folder in folders if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True, mode=0o700)
        # Existing folders too: a killed process may have created them without a sync.
        for folder in reversed(folders):
            try:
                self.sync_folder(folder)
            except OSError:
                if folder in missing:
                    raise  # a folder that existed before may be unreadable; it is durable

    def create(self, path: Path) -> int:
        """Create an empty, locked file with mode 0600 that replaces any other at `path`."""
        self.remove(path)  # another user may have created it, and could read it
        handle = os.open(path, _BYTES | os.O_EXCL, 0o600)
        try:
            self.lock(handle)
        except BaseException:
            os.close(handle)
            raise
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
        """Write at the end of the file; after an OSError a part of the data may be in the file."""
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]

    def free(self, path: Path) -> int:
        """Return how many bytes the disk with the folder of `path` still takes from this user."""
        return shutil.disk_usage(path.parent).free

    def truncate(self, handle: int, size: int) -> None:
        """Cut the file to its first `size` bytes."""
        os.ftruncate(handle, size)

    def sync(self, handle: int) -> None:
        """Return when the content of the file survives a power cut."""
        _SYNC(handle)

    def rename(self, path: Path, to: Path) -> None:
        """Rename the file at `path` to `to`, replacing the file there."""
        path.replace(to)

    def sync_folder(self, path: Path) -> None:
        """Return when the name of the file at `path` survives a power cut."""
        folder = os.open(path.parent, os.O_RDONLY | _PRIVATE)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""
        path.unlink(missing_ok=True)

    def close(self, handle: int) -> None:
        """Close the file and release its lock."""
        os.close(handle)
