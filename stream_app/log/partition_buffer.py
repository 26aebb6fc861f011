"""Delivered records of one partition that no round has taken yet, and the last record taken."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from stream_app.wire import Tail, fingerprint

_HELD_BYTES = 1 << 20


class Record(NamedTuple):
    """A record of a partition; `epoch` is the leader epoch, -1 where the broker keeps none."""

    offset: int
    key: bytes | None
    value: bytes | None
    epoch: int

    @property
    def tail(self) -> Tail:
        """Offset and fingerprint of this record."""
        return Tail(self.offset, fingerprint(self.offset, self.epoch, self.key, self.value))


class PartitionBuffer:
    """Records in offset order; `tail` is that of the last record taken, at first the given one."""

    def __init__(self, tail: Tail | None = None) -> None:
        self._offsets: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._epochs: list[int] = []
        self._head = 0
        self.size = 0
        """Bytes of the values that no round has taken."""
        self._taken_size = 0  # of the values before `_head`, which are still held
        self._tail = tail
        self._last: Record | None = None  # taken, and not hashed yet

    def __len__(self) -> int:
        return len(self._offsets) - self._head

    def append(self, offset: int, key: bytes | None, value: bytes | None, epoch: int) -> None:
        """Add the next record."""
        self._offsets.append(offset)
        self._keys.append(key)
        self._values.append(value)
        self._epochs.append(epoch)
        self.size += len(value or b"")

    def take(
        self, end: int, limit: int, size_limit: int
    ) -> tuple[list[int], list[bytes | None], list[bytes | None]]:
        """Remove and return the records below offset `end`, at most `limit` of them and about
        `size_limit` bytes."""
        first, last, size = self._head, self._head, 0
        stop = min(len(self._offsets), first + limit)
        while last < stop and self._offsets[last] < end and size < size_limit:
            size += len(self._values[last] or b"")
            last += 1
        taken = self._offsets[first:last], self._keys[first:last], self._values[first:last]
        if last > first:
            self._last = self._record(last - 1)
        self._head = last
        self.size -= size
        self._taken_size += size
        many = self._head > 4096 and 2 * self._head > len(self._offsets)
        if many or self._taken_size > _HELD_BYTES:
            for column in (self._offsets, self._keys, self._values, self._epochs):
                del column[: self._head]
            self._head = self._taken_size = 0
        return taken

    def _record(self, at: int) -> Record:
        return Record(self._offsets[at], self._keys[at], self._values[at], self._epochs[at])

    @property
    def tail(self) -> Tail | None:
        """The last record taken; None while it is not known."""
        if self._last is not None:
            self._tail, self._last = self._last.tail, None
        return self._tail

    def tail_below(self, end: int) -> Tail | None:
        """Return the last record below the offset `end`, taken or not; None if it is not known."""
        at = bisect_left(self._offsets, end, self._head)
        return self._record(at - 1).tail if at > self._head else self.tail
