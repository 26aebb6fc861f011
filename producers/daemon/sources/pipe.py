"""Ratings from standard input: lines are held in memory until they are kept on the disk."""

from __future__ import annotations

import os
import select
from collections.abc import Sequence

from producers.daemon.sources.source import PIECE, Lines


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
