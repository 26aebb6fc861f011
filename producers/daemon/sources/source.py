"""What a source of ratings is to the program, and the lines of a stream of bytes.

    take      the lines that have come and are not confirmed yet
    confirm   each of them is kept, or refused for a reason: they are not returned again
    refuse    none of them could be kept now: a source that can returns them again
    trouble   why nothing can be taken now
    busy      there is more to do at once, although nothing may have been taken

What is taken at once is bounded (`PIECE` bytes of lines, or little more), and so is the work for
it, so that a program is at its moments whatever comes.

A source that is behind something durable (a file) confirms its place in it; one that is not keeps
the lines until they are confirmed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from producers.daemon.sources.lines import LONGEST

PIECE = 1 << 15  # bytes of lines taken at once
_TOO_LONG = b"x" * (LONGEST + 1)  # stands for a line that was not kept in memory


class Source(Protocol):
    """A source of lines; see the module."""

    @property
    def name(self) -> str:
        """The name of the source, for messages."""

    @property
    def busy(self) -> bool:
        """Whether to take again at once."""

    @property
    def trouble(self) -> str:
        """Why nothing can be taken now, as a sentence; empty where it can."""

    def files(self) -> list[int]:
        """Return the descriptors that are readable when something has come."""

    def take(self) -> list[tuple[str, bytes]]:
        """Return the place and the bytes of each waiting line; raises nothing for a bad source."""

    def confirm(self, answers: Sequence[str]) -> None:
        """Go on behind the lines that `take` returned; `answers` has "" for a line that is kept."""

    def refuse(self, reason: str) -> None:
        """Learn that the lines could not be kept."""

    def close(self) -> None:
        """Release what the source holds."""


class Lines:
    """Bytes that come in pieces, as whole lines; a line that is too long is dropped while it comes.

    The line that stands for it is refused for its length.
    """

    def __init__(self) -> None:
        self._rest, self._dropping = b"", False

    def add(self, data: bytes) -> list[bytes]:
        """Return the lines that these bytes complete."""
        *whole, rest = (self._rest + data).split(b"\n")
        if self._dropping and whole:
            whole[0], self._dropping = _TOO_LONG, False
        if len(rest) > LONGEST or self._dropping:
            rest, self._dropping = b"", True
        self._rest = rest
        return whole
