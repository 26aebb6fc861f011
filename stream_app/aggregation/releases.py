"""What a party has released, in a file beside its keys: one line a stage, synced before it counts.

    PLAN STAGE RELEASED\\n    in hex, decimal and hex

The log of rounds is written by others too. If a stage of it were taken back and its records
replaced, a party would add other noise to a second sum of the same devices; with this file it
refuses. One process at a time has the file. A last line that a crash cut off was never released and
is removed. Any other line that cannot be read may have been released: the file is refused.
"""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

from stream_app.errors import UserError
from stream_app.kafka.durable_file import sync_folder

_LINE = re.compile(rb"([0-9a-f]{64}) ([0-9]{1,9}) ([0-9a-f]{64})")
_LONGEST = 64 + 1 + 9 + 1 + 64


class ReleasesFile:
    """The file of one party's releases."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size, self._torn = 0, False
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._kept = self._read(path.read_bytes())
            sync_folder(path.parent)
        except BlockingIOError:
            os.close(self._handle)
            raise UserError(f"{path}: another process is this party; end that first") from None
        except OSError as error:
            raise self._unusable(error) from None
        except UserError:
            os.close(self._handle)
            raise

    def keep(self, plan: bytes, stage: int, released: bytes) -> bool:
        """Keep what a stage is released as, durably; return False, and keep nothing, if it was
        released as something else before. Raises `UserError` where the file cannot be written."""
        name = plan.hex().encode(), stage
        value = released.hex().encode()
        if name in self._kept:
            return self._kept[name] == value
        line = b"%s %d %s\n" % (*name, value)
        try:
            if self._torn:
                os.ftruncate(self._handle, self._size)
                self._torn = False
            written = os.write(self._handle, line)
            self._torn = True
            if written != len(line):
                raise UserError(f"{self._path}: the disk is full; free some of it")
            os.fdatasync(self._handle)
        except OSError as error:
            raise self._unusable(error) from None
        self._torn = False
        self._size += len(line)
        self._kept[name] = value
        return True

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    def _read(self, value: bytes) -> dict[tuple[bytes, int], bytes]:
        """Return what the file says was released. A last line without its end is cut off before
        the next is written; one that is whole but for its end counts."""
        *lines, last = value.split(b"\n")
        self._size, self._torn = len(value) - len(last), bool(last)
        whole = _LINE.fullmatch(last) is not None
        kept: dict[tuple[bytes, int], bytes] = {}
        for number, line in enumerate([*lines, last] if whole else lines, 1):
            found = _LINE.fullmatch(line)
            if found is None:
                raise self._damaged(number)
            plan, stage, released = found.groups()
            kept.setdefault((plan, int(stage)), released)
        if len(last) > _LONGEST:
            raise self._damaged(len(lines) + 1)
        if whole:
            os.write(self._handle, b"\n")
            self._size, self._torn = len(value) + 1, False
        return kept

    def _damaged(self, number: int) -> UserError:
        return UserError(
            f"{self._path}: line {number} is damaged, and a stage that it names could be released "
            "twice; restore it from a copy"
        )

    def _unusable(self, error: OSError) -> UserError:
        return UserError(
            f"{self._path}: cannot be written ({error.strerror}); a party keeps there what it has "
            "released"
        )
