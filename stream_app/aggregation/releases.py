"""What a party has released, in a file beside its keys: one line a stage, synced before it counts.

    PLAN STAGE RELEASED\\n    in hex, decimal and hex

The log of rounds is written by others too. If a stage of it were taken back and its records
replaced, a party would add other noise to a second sum of the same devices; with this file it
refuses. One process at a time has the file. A line that a crash cut off was never released, and the
next one begins on its own line.
"""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path

from stream_app.errors import UserError

_LINE = re.compile(rb"([0-9a-f]{64}) ([0-9]{1,9}) ([0-9a-f]{64})")


class ReleasesFile:
    """The file of one party's releases."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            value = path.read_bytes()
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except BlockingIOError:
            os.close(self._handle)
            raise UserError(f"{path}: another process is this party; end that first") from None
        except OSError as error:
            raise self._unusable(error) from None
        self._ends_in_line = not value or value.endswith(b"\n")
        self._kept: dict[tuple[bytes, int], bytes] = {}
        for line in value.split(b"\n")[:-1]:
            if found := _LINE.fullmatch(line):
                plan, stage, released = found.groups()
                self._kept.setdefault((plan, int(stage)), released)

    def keep(self, plan: bytes, stage: int, released: bytes) -> bool:
        """Keep what a stage is released as, durably; return False, and keep nothing, if it was
        released as something else before. Raises `UserError` where the file cannot be written."""
        name = plan.hex().encode(), stage
        value = released.hex().encode()
        if name in self._kept:
            return self._kept[name] == value
        line = b"%s %d %s\n" % (*name, value)
        if not self._ends_in_line:
            line = b"\n" + line
        try:
            if os.write(self._handle, line) != len(line):
                self._ends_in_line = False
                raise UserError(f"{self._path}: the disk is full; free some of it")
            os.fdatasync(self._handle)
        except OSError as error:
            self._ends_in_line = False
            raise self._unusable(error) from None
        self._ends_in_line = True
        self._kept[name] = value
        return True

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)

    def _unusable(self, error: OSError) -> UserError:
        return UserError(
            f"{self._path}: cannot be written ({error.strerror}); a party keeps there what it has "
            "released"
        )
