"""The high-water mark of a journal: the number of its next message, kept away from its file.

    mark  <=  next number in the journal      or the journal is an older copy

A copy that was put back has forgotten what was released after it, and would draw and pay for it
again. So the mark lies in the user's state folder ($XDG_STATE_HOME or ~/.local/state, `murmurec`),
under a hash of the device key: whoever puts back a journal, or its folder, leaves it as it is. It
is read before a release and written after it, beside a sync.

Not found: a copy on another machine or of another user, a backup that holds the state folder too,
anything where that folder cannot be written. For these the topics are asked
(`producers.last_seen`).
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from stream_app.errors import OlderJournal

_DIGITS = 20  # one write of a fixed size: a reader never sees a part of a number
_PERSON = b"murmurec mark"


class HighWaterMark:
    """The mark of the journal with this device key, or the one in a file; none where the folder
    refuses it."""

    def __init__(self, key: bytes, file: Path | None = None) -> None:
        self._name, self._file = blake2b(key, digest_size=16, person=_PERSON).hexdigest(), file

    @property
    def path(self) -> Path:
        """Where it lies; RuntimeError for a user without a home."""
        if self._file is not None:
            return self._file
        folder = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state")
        return folder.expanduser() / "murmurec" / self._name

    def newest(self) -> int:
        """Return the number that was kept; 0 without one."""
        try:
            return int(self.path.read_bytes())
        except (OSError, RuntimeError, ValueError):
            return 0

    def check(self, journal: Path, number: int) -> None:
        """Raise OlderJournal for a journal whose next message has a smaller number."""
        newest = self.newest()
        if number < newest:
            raise OlderJournal(
                f"device journal {journal}: its next message has the number {number}, and by "
                f"{self.path} this user has had one with {newest}, so this is an older copy, which "
                "would spend a spent budget again: put the newest copy back; if it is lost, begin "
                "with another path (--journal), whose budget adds to what was spent"
            )

    def advance(self, number: int) -> None:
        """Keep this number of the next message."""
        with suppress(OSError, RuntimeError):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.write(handle, b"%0*d" % (_DIGITS, number))
            finally:
                os.close(handle)
