"""What a source of ratings is to the program, and the lines of a stream of bytes; standard input.

    take      the lines that have come and are not confirmed yet
    confirm   each of them is kept, or refused for a reason: they are not returned again
    refuse    none of them could be kept now: a source that can returns them again
    trouble   why nothing can be taken now
    busy      there is more to do at once, although nothing may have been taken

What is taken at once is bounded (`PIECE` bytes of lines, or little more), and so is the work for
it, so that a program is at its moments whatever comes.

A source that is behind something durable (a file) confirms its place in it; one that is not keeps
the lines in memory until they are confirmed.
"""

from __future__ import annotations

import os
import select
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


class Pipe:
    """The lines of a file descriptor; nothing more is read while lines wait to be confirmed."""

    busy = False

    def __init__(self, descriptor: int, name: str = "standard input") -> None:
        self.name, self.trouble = name, ""
        self._descriptor, self._lines = descriptor, Lines()
        self._waiting: list[tuple[str, bytes]] = []
        self._count, self._ended = 0, False

    def files(self) -> list[int]:
        """Return the descriptor, while more may be read."""
        return [] if self._ended or self._waiting else [self._descriptor]

    def take(self) -> list[tuple[str, bytes]]:
        """Return the waiting lines."""
        if not self._waiting and not self._ended and _readable(self._descriptor):
            try:
                data = os.read(self._descriptor, PIECE)
            except OSError as error:
                data, self.trouble = b"", f"{self.name}: cannot be read any more ({error.strerror})"
            self._ended = not data
            for line in self._lines.add(data or b"\n"):  # the last line may have no end
                self._count += 1
                self._waiting.append((f"{self.name}: line {self._count}", line))
        return self._waiting

    def confirm(self, answers: Sequence[str]) -> None:  # noqa: ARG002 (its sender does not listen)
        """Drop the lines."""
        self._waiting = []

    def refuse(self, reason: str) -> None:
        """Keep the lines: they are tried again."""

    def close(self) -> None:
        """Leave the descriptor to its owner."""


def _readable(descriptor: int) -> bool:
    waiting = select.poll()  # unlike select, it takes descriptors above 1023
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(0))
