"""Ratings from a file that other programs write: appended, rewritten, truncated or rotated.

    place    how many bytes are confirmed, and the HMAC of them under the journal's key
    looked   stat -> unchanged? nothing : read from the place on

    the confirmed bytes are as they were    appended: the lines behind the place
    they are not                            what follows them in the file of before (still open, or
                                            FILE.1 where it was rotated meanwhile), then the whole
                                            file from its beginning

A line is taken when it has its end. Lines that were confirmed and come again (a file that was
rewritten) change nothing unless their rating has changed, see `kept`; a line that was removed is
not forgotten by that (`murmurec device forget`). The places are in DEVICE.journal.watched, mode
0600; without that file all is read again, which loses nothing.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import json
import os
import stat
import time
from collections.abc import Generator, Sequence
from pathlib import Path

from producers.daemon.sources.source import PIECE
from stream_app.kafka import durable_file

_READ = 1 << 20
_MOST = 4 << 20  # bytes that are read, or compared, at once
_SETTLED_SECONDS = 2.0  # a file that changed less long ago may change again with the same stamp
_Look = Generator[list[bytes] | None, None, None]
_PERSON = b"murmurec watched\0"  # separates this hash from every other use of the key


class Places:
    """Where each watched file is confirmed to, in a file beside the journal."""

    def __init__(self, journal: Path) -> None:
        self.path = journal.with_name(f"{journal.name}.watched")

    def read(self, name: str) -> tuple[int, bytes]:
        """Return (bytes, HMAC) of a file, (0, b"") for one that was not watched before."""
        try:
            offset, digest = self._rows()[name]
            return max(0, int(offset)), bytes.fromhex(str(digest))
        except (KeyError, TypeError, ValueError, OverflowError):
            return 0, b""

    def write(self, name: str, offset: int, digest: bytes) -> None:
        """Store the place of a file; where the disk refuses, the lines are read again later."""
        rows = {**self._rows(), name: [offset, digest.hex()]}
        with contextlib.suppress(OSError):
            durable_file.replace(self.path, json.dumps(rows).encode())

    def _rows(self) -> dict[str, list[str | int]]:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


class WatchedFile:
    """The lines of one file; it may not exist yet."""

    def __init__(self, path: Path, places: Places, key: bytes) -> None:
        self.path = path.expanduser().absolute()
        self.name, self.trouble = str(path), ""
        self._places = places
        self._key = hmac.digest(
            key, _PERSON + str(self.path).encode("utf-8", "surrogatepass"), "sha256"
        )
        self._offset, self._digest = places.read(str(self.path))
        self._file = -1  # open, so that what is left of a rotated file can be read
        self._stamp: tuple[int, int, int] | None = None
        self._look: _Look | None = None  # that is not at its end
        self._waiting: list[bytes] = []
        self._line = 1  # the number of the first of them in its file, for messages
        self._taken = 0  # how many of the waiting lines the last `take` returned
        self._next: tuple[int, bytes] = self._offset, self._digest
        self._hash = hmac.new(self._key, None, "sha256")  # of the bytes that `_confirmed` compared
        self._counted = 0  # ends of lines in them
        self._more = False

    @property
    def busy(self) -> bool:
        """Whether lines wait, or bytes that were confirmed are being compared."""
        return self._look is not None or bool(self._waiting)

    def files(self) -> list[int]:
        """Return nothing: a file is looked at from time to time."""
        return []

    def take(self) -> list[tuple[str, bytes]]:
        """Return the next lines, a piece of them, each with its number in the file; nothing while
        earlier bytes are compared."""
        if not self._waiting:
            try:
                self._go_on_looking()
            except OSError as error:  # it may not be read, or not now: tried again
                self._look, self._stamp = None, None
                self._next = self._offset, self._digest
                self.trouble = f"{self.name}: cannot be read ({error.strerror}); tried again"
                return []
        self._taken, size = 0, 0
        for line in self._waiting:
            size += len(line) + 1
            if self._taken and size > PIECE:
                break
            self._taken += 1
        taken = enumerate(self._waiting[: self._taken], self._line)
        return [(f"{self.name}: line {number}", line) for number, line in taken]

    def confirm(self, answers: Sequence[str]) -> None:  # noqa: ARG002 (a file does not listen)
        """Go on behind the lines; the place is stored when all that were read are confirmed, so
        that after a crash before it they come again."""
        if self._taken:
            del self._waiting[: self._taken]
            self._line += self._taken
            self._taken = 0
            if not self._waiting:
                self._go_on()

    def refuse(self, reason: str) -> None:
        """Keep the place: the same lines are taken again."""

    def close(self) -> None:
        """Close the file."""
        if self._look is not None:
            self._look.close()
            self._look = None
        self._close_file()

    def _go_on(self) -> None:
        if self._next != (self._offset, self._digest):
            self._offset, self._digest = self._next
            self._places.write(str(self.path), *self._next)

    def _go_on_looking(self) -> None:
        """Look for lines, or go on with a look that was interrupted."""
        if self._look is None:
            self._look = self._looked() if self._changed() else None
        lines = None if self._look is None else next(self._look)
        if self._look is None or lines is not None:
            self.trouble = ""
        if lines is not None:
            self._look, self._waiting = None, lines
            if not lines:
                self._go_on()

    def _changed(self) -> bool:
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            # Moved away: read what is left.
            return self._file >= 0 and (self._more or self._stamp is not None)
        stamp = found.st_ino, found.st_size, found.st_mtime_ns
        settled = time.time() - found.st_mtime > _SETTLED_SECONDS
        if stamp == self._stamp and settled and not self._more:
            return False
        self._stamp = stamp
        return True

    def _looked(self) -> _Look:
        """Yield None from time to time, then the lines to take; the place is set behind them."""
        now = _opened(self.path)
        try:
            lines = yield from self._found(now)
        finally:
            if 0 <= now != self._file:
                os.close(now)
        yield lines

    def _found(self, now: int) -> Generator[None, None, list[bytes]]:
        """Return the lines to take; `now` is the file at the path, -1 where there is none."""
        before = self._file
        if before >= 0 and (now < 0 or not os.path.sameopenfile(before, now)):
            left = yield from self._left_of(before)
            if not self._more:
                self._close_file()
            if now < 0:
                self._stamp = None
                return left
            if left:
                self._more = True  # the file of now is read at the next look
                return left
        if now < 0:
            return []
        if (yield from self._confirmed(now)):
            self._keep(now)
            return self._lines(now, self._offset)
        rotated = _before_rotation(self.path)
        if rotated >= 0:
            try:
                left = yield from self._left_of(rotated)
            finally:
                os.close(rotated)
            if left:
                self._more = True
                return left
        self._keep(now)
        return self._lines(now, 0)

    def _keep(self, now: int) -> None:
        self._close_file()
        self._file = now

    def _close_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _confirmed(self, file: int) -> Generator[None, None, bool]:
        """Return whether a file begins with the confirmed bytes."""
        self._hash, self._counted = hmac.new(self._key, None, "sha256"), 0
        if not self._offset:
            return True
        if os.fstat(file).st_size < self._offset:
            return False
        self._hash = yield from self._hashed(file, self._offset)
        return hmac.compare_digest(self._hash.digest(), self._digest)

    def _hashed(self, file: int, size: int) -> Generator[None, None, hmac.HMAC]:
        found = hmac.new(self._key, None, "sha256")
        at = 0
        while at < size:
            os.lseek(file, at, os.SEEK_SET)
            data = os.read(file, min(size - at, _READ))
            if not data:
                break
            found.update(data)
            self._counted += data.count(b"\n")
            at += len(data)
            if at < size and at % _MOST < len(data):
                yield
        return found

    def _lines(self, file: int, start: int) -> list[bytes]:
        os.lseek(file, start, os.SEEK_SET)
        data = b""
        while len(data) < _MOST and (piece := os.read(file, _READ)):
            data += piece
        self._more = len(data) >= _MOST
        end = data.rfind(b"\n") + 1
        if not end and self._more:
            end = len(data)  # no line is that long: refused for its length
        # The bytes that were taken are hashed, not those of a file that changes meanwhile: they
        # would count as confirmed without having been read.
        found = self._hash.copy() if start else hmac.new(self._key, None, "sha256")
        found.update(data[:end])
        self._next = start + end, found.digest()
        self._line = 1 + (self._counted if start else 0)
        return data[:end].splitlines()

    def _left_of(self, file: int) -> Generator[None, None, list[bytes]]:
        """Return what follows the place in a file of which nothing more will come; afterwards the
        place is at the beginning of the file that replaced it."""
        if not (yield from self._confirmed(file)):
            self._next, self._more = (0, b""), False
            return []
        lines = self._lines(file, self._offset)
        if not self._more:
            os.lseek(file, self._next[0], os.SEEK_SET)
            if last := os.read(file, _READ):
                lines.append(last)  # its last line has no end, and never will
            self._next = 0, b""
        return lines


def _opened(path: Path) -> int:
    """Return a descriptor of a plain file, -1 where there is none; OSError for any other."""
    more = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)  # a named pipe would wait
    try:
        file = os.open(path, os.O_RDONLY | more)
    except (FileNotFoundError, NotADirectoryError):
        return -1
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise OSError(errno.EINVAL, "it is not a plain file")


def _before_rotation(path: Path) -> int:
    """Return a descriptor of FILE.1, -1 without one: it is an extra, so no error of it counts."""
    try:
        return _opened(path.with_name(f"{path.name}.1"))
    except OSError:
        return -1
