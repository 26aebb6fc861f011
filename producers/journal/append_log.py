"""One append-only file: whole frames, synced when asked, and unchanged when something fails.

    open      lock, read, remove a torn end, sync the rest
    append    write, sync; after a failure the file has its earlier bytes
    replace   write path.new, sync it, rename it, sync the folder: at every moment `path` is one
              whole file, the old or the new

After a failed sync the content on the disk is unknown: the file accepts nothing more until it is
opened again. Every error is one sentence with the fix.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from producers.journal import frames
from producers.journal.disk import Disk
from producers.pseudonyms import KEY_BYTES
from stream_app.errors import Unwritable, UserError

ANOTHER = "give another path (--journal), where a budget begins again"
_VOUCHED = (frames.Kind.COMMIT, frames.Kind.ENROLMENTS)  # records that a later frame vouches for


class Log:
    """An open journal file; `frames` are what it held when it was opened."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self.path = path
        self._disk = disk
        self._broken = False
        self.made, self.cut = False, 0
        with refusing_os_errors(path):
            self._handle = disk.open(path)
        try:
            with refusing_os_errors(path):
                found = self._read()
            self.key, self.size = found.key, found.end
            self.frames: tuple[frames.Frame, ...] = found.frames
        except BaseException:
            self.close()
            raise
        self._synced = self.size
        # Whether the last frame is a record that no later frame vouches for yet.
        self.unvouched = bool(self.frames) and self.frames[-1].kind in _VOUCHED

    def _read(self) -> frames.Scan:
        mode = self._disk.mode(self._handle)
        if not stat.S_ISREG(mode):
            raise UserError(f"device journal {self.path}: is not a plain file; {ANOTHER}")
        data = self._disk.read(self._handle)
        if data and not data.startswith(frames.MAGIC):
            scan_or_refuse(data, self.path)  # raises: the file holds no device key
        if mode & 0o077:
            raise UserError(
                f"device journal {self.path}: others can open it (mode {mode & 0o777:o}) and it "
                f"holds the device key; run chmod 600 {self.path}"
            )
        if not data:
            self.made = True
            self._swap([frames.header(os.urandom(KEY_BYTES), frames.HEADER_BYTES)])
            data = self._disk.read(self._handle)
        found = scan_or_refuse(data, self.path)
        self.cut = len(data) - found.end
        if self.cut:
            self._disk.truncate(self._handle, found.end)
        # Records that an earlier process did not sync must be durable before they are sent.
        self._disk.sync(self._handle)
        self._disk.sync_folder(self.path)
        return found

    @property
    def usable(self) -> bool:
        """Whether the file accepts records: no sync failed, no failed write is left in it."""
        return not self._broken

    def append(self, records: Sequence[tuple[frames.Kind, bytes]], *, durable: bool) -> None:
        """Write records at the end; when `durable`, they outlive a power cut on return."""
        if self._broken:
            raise UserError(
                f"device journal {self.path}: an earlier write failed; open it again to go on"
            )
        data = b"".join(frames.frame(kind, body, self._synced) for kind, body in records)
        with refusing_os_errors(self.path):
            try:
                self._disk.append(self._handle, data)
                if durable:
                    self._broken = True  # until the sync has succeeded
                    self._disk.sync(self._handle)
                    self._broken = False
            except BaseException:
                self._undo()
                raise
        self.size += len(data)
        self.unvouched = durable
        if durable:
            self._synced = self.size

    def _undo(self) -> None:
        """Remove the bytes of a failed write."""
        try:
            self._disk.truncate(self._handle, self.size)
        except OSError:
            self._broken = True

    def replace(self, records: Sequence[tuple[frames.Kind, bytes]]) -> None:
        """Replace the file by one with these records and the same device key."""
        framed = [frames.frame(kind, body, 0) for kind, body in records]
        whole = frames.HEADER_BYTES + sum(map(len, framed))
        with refusing_os_errors(self.path):
            self._swap([frames.header(self.key, whole), *framed])
        self.size = self._synced = whole
        self.unvouched = False

    def _swap(self, pieces: list[bytes]) -> None:
        new = self.path.with_name(f"{self.path.name}.new")
        handle = self._disk.create(new)
        try:
            for piece in pieces:
                self._disk.append(handle, piece)
            self._disk.sync(handle)
            self._broken = True  # until the new name is durable
            self._rename(new)
        except BaseException:
            self._disk.close(handle)
            self._disk.remove(new)
            raise
        old, self._handle = self._handle, handle
        self._disk.close(old)
        self._disk.sync_folder(self.path)
        self._broken = False

    def _rename(self, new: Path) -> None:
        try:
            self._disk.rename(new, self.path)
        except OSError:
            self._broken = False  # the old file still has its name
            raise

    def close(self) -> None:
        """Close the file and release its lock."""
        if self._handle >= 0:
            self._disk.close(self._handle)
            self._handle = -1


def scan_or_refuse(data: bytes, path: Path) -> frames.Scan:
    """Return what a journal's bytes hold; UserError for a foreign or damaged file."""
    try:
        return frames.scan(data)
    except frames.CorruptJournalError as error:
        raise UserError(
            f"device journal {path}: is damaged at byte {error.position} of {len(data)}; nothing "
            "is sent from it, as what was spent is no longer known: restore it from its disk, or "
            "move it to another folder, and new pseudonyms are made, whose budgets begin again"
        ) from None
    except frames.NotAJournalError as error:
        raise UserError(f"device journal {path}: {error}; {ANOTHER}") from None


_SENTENCES = {
    errno.ENOSPC: "the disk is full; free some space and go on",
    errno.EDQUOT: "the disk is full; free some space and go on",
    errno.EFBIG: "the file may not grow any more; raise the limit and go on",
    errno.EROFS: f"is read-only; make it writable or {ANOTHER}",
    errno.EIO: "the disk cannot be read or written; check it and go on",
    errno.EISDIR: f"is a directory; {ANOTHER}",
    errno.ENOSYS: f"this system cannot lock it; {ANOTHER}",
    errno.EWOULDBLOCK: f"another process is using it; wait for it to end or {ANOTHER}",
}


@contextmanager
def refusing_os_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into `Unwritable`: one sentence with the fix."""
    try:
        yield
    except OSError as error:
        sentence = _SENTENCES.get(error.errno or 0)
        sentence = sentence or f"cannot be used ({error.strerror or error}); {ANOTHER}"
        raise Unwritable(f"device journal {path}: {sentence}") from None
