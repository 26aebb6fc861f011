"""What a source of ratings is to the program, and the lines of a stream of bytes; standard input.

    take      the lines that have come and are not confirmed yet
    confirm   each of them is kept, or refused for a reason: they are not returned again
    refuse    none of them could be kept now: a source that can returns them again
    trouble   why nothing can be taken now
    busy      there is more to do at once, although nothing may have been taken

What is taken at once is bounded (`PIECE` bytes of lines, or little more), and so is the work for
it, so that a program is at its moments whatever comes.

A source that is behind something durable (a file) confirms its place in it; one that is not keeps
the lines in memory until they are confirmed. A line is one rating:

    one account     item,rating[,time]
    a population    user,item,rating[,time]
    both            {"user": "ann", "item": "1193", "rating": 4}      for ids with a comma or a line
                    break, or that begin with #, { or a byte order mark

A user is named by the id that was enrolled, an item by its own: nothing is trimmed. A line is
decoded and checked by itself, and what is wrong with it is one sentence without its rating. A line
that names the columns ("item,rating"), an empty line and one that begins with # hold no rating.
"""

from __future__ import annotations

import math
import os
import select
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from stream_app import wire

LONGEST = 16_384  # bytes of a line


@dataclass(frozen=True, repr=False)  # a raw rating has no place in a log
class RatedLine:
    """The rating of one line; `user` is None where the line does not name one."""

    user: str | None
    item: wire.Item
    raw_rating: float


class _Json(msgspec.Struct, forbid_unknown_fields=True):
    item: int | str
    rating: float
    user: int | str | None = None
    time: float | None = None


_decoder = msgspec.json.Decoder(_Json)


def parse(line: bytes, *, named: bool) -> RatedLine | None:
    """Return the rating in a line, None where it holds none; `named`: lines name their user.

    ValueError for any other line, never with its rating.
    """
    if len(line) > LONGEST:
        raise ValueError(f"{len(line)} bytes: a line has at most {LONGEST}")
    try:
        text = line.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise ValueError("is not text in UTF-8") from None
    if not text.strip() or text.startswith("#"):
        return None
    if text.startswith("{"):
        return _from_json(text, named)
    fields = text.split(",")
    if [field.strip().lower() for field in fields[:2]] in (["item", "rating"], ["user", "item"]):
        return None
    form = "user,item,rating[,time]" if named else "item,rating[,time]"
    least = 3 if named else 2
    if not least <= len(fields) <= least + 1:
        raise ValueError(f"{len(fields)} fields: write {form}")
    user = fields.pop(0) if named else None
    return RatedLine(user, _item(fields[0]), _number(fields[1]))


def _from_json(text: str, named: bool) -> RatedLine:
    try:
        row = _decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        raise ValueError('is not {"user": ..., "item": ..., "rating": ...}') from None
    if named != (row.user is not None):
        raise ValueError("names no user" if named else "names a user, and --user names one already")
    user = None if row.user is None else str(row.user)
    return RatedLine(user, _item(str(row.item)), _number(str(row.rating)))


def _item(text: str) -> wire.Item:
    wire.key(text)  # raises for an id that cannot be one
    return wire.parse_item(text)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError("the rating is not a number")
    return number


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
