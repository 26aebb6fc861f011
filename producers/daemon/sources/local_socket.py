"""Ratings from programs on this machine: a socket in the file system, mode 0600.

A sender connects, writes lines, and gets one line back for each: "kept" once the rating is durable
on this device, or "refused: " and the reason. No answer depends on what is reported, or when.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from producers.daemon.sources.source import PIECE, Lines
from stream_app.errors import UserError

_MOST = 64  # connections at once
_UNANSWERED = 1 << 20  # bytes of answers that a sender does not read: it is disconnected


@dataclass
class _Sender:
    connection: socket.socket
    lines: Lines = field(default_factory=Lines)
    answers: bytes = b""


class LocalSocket:
    """A listening socket at `path`; a socket that an ended program has left is replaced."""

    busy = False

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, f"socket {path}"
        self.trouble = ""
        self._senders: dict[int, _Sender] = {}
        self._waiting: list[tuple[_Sender, bytes]] = []
        self._server = _listening(path)
        self._inode = path.stat().st_ino

    def files(self) -> list[int]:
        """Return the descriptors of the connections, and of the listening socket while it accepts
        more: one that waits for a place would be readable at every look."""
        more = [self._server.fileno()] if len(self._senders) < _MOST else []
        return [*more, *self._senders]

    def take(self) -> list[tuple[str, bytes]]:
        """Accept, read what has come, and return its lines."""
        self._accept()
        taken = sum(len(line) for _, line in self._waiting)
        for number, sender in list(self._senders.items()):
            if taken >= PIECE:
                break  # the others are still readable, and have their turn first
            self._senders[number] = self._senders.pop(number)
            taken += self._read(sender)
        return [(self.name, line) for _, line in self._waiting]

    def confirm(self, answers: Sequence[str]) -> None:
        """Answer every line."""
        for (sender, _), reason in zip(self._waiting, answers, strict=True):
            sender.answers += f"refused: {reason}\n".encode() if reason else b"kept\n"
        self._waiting = []
        for sender in list(self._senders.values()):
            self._answer(sender)

    def refuse(self, reason: str) -> None:
        """Answer every line that it was not kept: the sender has it still."""
        self.confirm([reason] * len(self._waiting))

    def close(self) -> None:
        """Close all connections and remove the socket."""
        for sender in list(self._senders.values()):
            self._drop(sender)
        self._server.close()
        try:
            if self.path.stat().st_ino == self._inode:
                self.path.unlink()
        except OSError:
            pass  # removed already

    def _accept(self) -> None:
        while len(self._senders) < _MOST:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            connection.setblocking(False)
            self._senders[connection.fileno()] = _Sender(connection)

    def _read(self, sender: _Sender) -> int:
        """Read what a sender has sent; return how many bytes."""
        try:
            data = sender.connection.recv(PIECE)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if data:
            self._waiting += [(sender, line) for line in sender.lines.add(data)]
            return len(data)
        self._waiting += [(sender, line) for line in sender.lines.add(b"\n") if line]
        if not any(each is sender for each, _ in self._waiting):
            self._drop(sender)
        return 0

    def _answer(self, sender: _Sender) -> None:
        try:
            while sender.answers:
                sender.answers = sender.answers[sender.connection.send(sender.answers) :]
        except BlockingIOError:
            if len(sender.answers) > _UNANSWERED:
                self._drop(sender)
        except OSError:
            self._drop(sender)

    def _drop(self, sender: _Sender) -> None:
        self._senders.pop(sender.connection.fileno(), None)
        sender.connection.close()


def _listening(path: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_left_behind(path)
        before = os.umask(0o177)  # the socket is never open to others, not even for a moment
        try:
            server.bind(str(path))
        finally:
            os.umask(before)
        server.listen(_MOST)
        server.setblocking(False)
    except UserError:
        server.close()
        raise
    except OSError as error:
        server.close()
        raise UserError(
            f"socket {path}: cannot be made ({error.strerror or error}); give a path of at most "
            "100 characters in a folder of yours (--socket)"
        ) from None
    return server


def _remove_left_behind(path: Path) -> None:
    """Remove the socket of a program that has ended; refuse everything else at the path."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise UserError(f"socket {path}: is another file; give another path (--socket)")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        try:
            asking.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise UserError(f"socket {path}: another program listens on it; give another path (--socket)")
