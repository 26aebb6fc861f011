"""The bytes of a journal file: a header, then frames; torn ends are distinguished from damage.

    header  magic 8 | format u16 | 0 u16 | 0 u32 | whole u64 | device key 32 | 0 u32 | crc32 u32
    frame   length u32 | crc32 u32 | kind u8 | synced u64 | body          (little-endian)
                                     `------- length, crc32 -------'

The writer of a frame records in `synced` up to which byte the file was durable; `whole` is the same
for a file when it was created. Unreadable bytes are judged by it. If the header or a later frame
says that they were durable, the file is damaged to an unknown extent and is refused with the
position. Otherwise they are a write that a crash has torn, and are removed.

A record is vouched for by the `ACKS` frame of its first delivery report, or when the file is
closed; neither is synced. So one kind of damage looks like a torn end: the last record is damaged
after it was published, and no later frame is on the disk, because the process or the power ended
first. The debit of that record is then lost.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Protocol

import numpy as np

from producers.pseudonyms import KEY_BYTES

MAGIC = b"MURMJRNL"
FORMAT = 2  # of 1, names and items had another form
_HEADER = struct.Struct(f"<8sHHIQ{KEY_BYTES}sI")
HEADER_BYTES = _HEADER.size + 4
_FRAME = struct.Struct("<II")
_VOUCHER = struct.Struct("<BQ")
FRAME_BYTES = _FRAME.size + _VOUCHER.size
LARGEST_BODY = 2**32 - 1 - _VOUCHER.size
_SEARCHED = 1 << 20  # bytes searched at a time for a frame behind a damaged one


class Kind(IntEnum):
    """The content of a frame."""

    COMMIT = 1  # debits, event ids and noised bytes of one commit
    ACKS = 2  # numbers of messages that the broker has accepted
    ACCOUNTS = 3  # the budget state: the head of a compacted file
    PENDING = 4  # messages that were not acknowledged when the file was compacted
    ENROLMENTS = 5  # accounts as they are from now on: budget, plan, withdrawal


@dataclass(frozen=True)
class Frame:
    """One frame: its kind, its body, and where it begins in the file."""

    kind: Kind
    body: memoryview
    position: int


class FrameLog(Protocol):
    """Where a journal's frames lie: a file (`append_log`), or rows of a store.

    path, key   what messages call it; the device key
    frames      those that it held when it was opened; size: what they take in bytes
    made, cut   whether it is new; bytes of a torn end that were removed
    unvouched   the last frame is a record for which no later frame vouches
    """

    path: Path
    key: bytes
    frames: tuple[Frame, ...]
    size: int
    made: bool
    cut: int
    unvouched: bool

    @property
    def usable(self) -> bool:
        """Whether it takes records: not after a failure, until it is opened again."""

    def append(self, records: Sequence[tuple[Kind, bytes]], *, durable: bool) -> None:
        """Write records at the end; when `durable`, they outlive a power cut on return."""

    def replace(self, records: Sequence[tuple[Kind, bytes]]) -> None:
        """Replace all records, at once."""

    def close(self) -> None:
        """Give it back."""


@dataclass(frozen=True)
class Scan:
    """Content of a file: the device key, the frames, and where the last whole frame ends."""

    key: bytes
    frames: tuple[Frame, ...]
    end: int


class CorruptJournalError(ValueError):
    """Durable bytes have changed; `position` is the first byte that may have."""

    def __init__(self, position: int) -> None:
        super().__init__(f"damaged at byte {position}")
        self.position = position


class NotAJournalError(ValueError):
    """The file is no journal, or has another format; the message names which."""


def header(key: bytes, whole: int) -> bytes:
    """Return the header of a file whose first `whole` bytes are synced before it gets its name."""
    packed = _HEADER.pack(MAGIC, FORMAT, 0, 0, whole, key, 0)
    return packed + zlib.crc32(packed).to_bytes(4, "little")


def frame(kind: Kind, body: bytes, synced: int) -> bytes:
    """Return a frame; `synced`: the bytes of the file that are known to be durable."""
    if len(body) > LARGEST_BODY:
        raise ValueError(f"journal: {len(body)} bytes in one record; write fewer events together")
    checked = _VOUCHER.pack(kind, synced) + body
    return _FRAME.pack(len(checked), zlib.crc32(checked)) + checked


def scan(data: bytes) -> Scan:
    """Return the content of a journal file; CorruptJournalError or NotAJournalError."""
    key, whole = _header(data)
    view, position, frames = memoryview(data), HEADER_BYTES, []
    while (found := _frame(view, position)) is not None:
        frames.append(found)
        position += FRAME_BYTES + len(found.body)
    if position < whole or _vouched_for(data, position):
        raise CorruptJournalError(position)
    return Scan(key, tuple(frames), position)


def _header(data: bytes) -> tuple[bytes, int]:
    if data[: len(MAGIC)] != MAGIC:
        if data.startswith(b"SQLite format 3\0"):
            raise NotAJournalError("is a device store of an earlier murmurec, which cannot be read")
        raise NotAJournalError("is not a device journal")
    if len(data) < HEADER_BYTES:
        raise CorruptJournalError(0)
    _, version, _, _, whole, key, _ = _HEADER.unpack_from(data)
    if zlib.crc32(data[: _HEADER.size]) != int.from_bytes(
        data[_HEADER.size : HEADER_BYTES], "little"
    ):
        raise CorruptJournalError(0)
    if version != FORMAT:
        raise NotAJournalError(f"has format {version}, this murmurec reads {FORMAT}")
    return key, whole


def _frame(view: memoryview, position: int) -> Frame | None:
    """Return the whole frame at a position, None where there is none."""
    if position + FRAME_BYTES > len(view):
        return None
    length, checksum = _FRAME.unpack_from(view, position)
    start = position + _FRAME.size
    checked = view[start : start + length]
    if length < _VOUCHER.size or len(checked) < length or zlib.crc32(checked) != checksum:
        return None
    try:
        kind = Kind(checked[0])
    except ValueError:
        raise NotAJournalError(
            f"holds a record of kind {checked[0]}, of a later murmurec"
        ) from None
    return Frame(kind, checked[_VOUCHER.size :], position)


def _vouched_for(data: bytes, position: int) -> bool:
    """Return whether a whole frame behind `position` says that the bytes there were durable."""
    for start in range(position + 1, len(data), _SEARCHED):
        block = np.frombuffer(data[start : start + _SEARCHED + FRAME_BYTES], np.uint8)
        if len(block) < FRAME_BYTES:
            break
        words = np.lib.stride_tricks.sliding_window_view(block[_FRAME.size + 1 :], 8)
        synced = np.ascontiguousarray(words).view("<u8")[:, 0]
        places = start + np.arange(len(synced), dtype=np.uint64)
        for place in np.flatnonzero((synced > position) & (synced <= places)).tolist():
            if _frame(memoryview(data), start + place) is not None:
                return True
    return False
