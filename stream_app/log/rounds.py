"""Rounds: from deliveries in any interleaving to the one canonical order.

    cut log        1          2          3            round r: between cut r-1 and cut r
    partition 0  ..|..........|....|..............
    partition 1  ....|....|..........|............    canonical order: round by round,
    partition 2  .|.............|......|..........    in a round partition by partition, by offset

A broker delivers the partitions and the cut log in whatever interleaving it likes, may deliver a
record again after a reconnect, and may hold cuts that a late, frozen or second clock wrote.
`Rounds` takes all of it and gives back the same sequence of runs: a cut counts only if its number
is the next one, it names every partition, moves none back and moves at least one on. The idea is
that of deterministic databases (Calvin, Thomson et al. 2012) and of the offset log of Spark
Structured Streaming.

Offsets may have holes (transaction markers): `reached` tells that everything below a position was
delivered or does not exist.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from stream_app.wire import Cut, Run


class OrderError(Exception):
    """The broker broke the order it promises in a partition; the state cannot be trusted to go
    on."""


@dataclass(frozen=True, eq=False)
class Step:
    """The next piece of the canonical order: a run of records, or the cut that ends their round."""

    run: Run | None
    cut: Cut | None


@dataclass
class _Buffer:
    """Delivered records of one partition that no round has taken yet."""

    offsets: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    head: int = 0

    def __len__(self) -> int:
        return len(self.offsets) - self.head

    def take(self, end: int, limit: int, size_limit: int) -> tuple[list[int], list, list]:  # type: ignore[type-arg]
        """Remove and return the records below offset `end`, at most `limit` of them and about
        `size_limit` bytes."""
        first, last, size = self.head, self.head, 0
        stop = min(len(self.offsets), first + limit)
        while last < stop and self.offsets[last] < end and size < size_limit:
            size += len(self.values[last] or b"")
            last += 1
        taken = self.offsets[first:last], self.keys[first:last], self.values[first:last]
        self.head = last
        if self.head > 4096 and 2 * self.head > len(self.offsets):
            del self.offsets[: self.head], self.keys[: self.head], self.values[: self.head]
            self.head = 0
        return taken


class Rounds:
    """Collects deliveries and gives out the canonical order; `starts` are the positions at cut
    `number`."""

    def __init__(
        self, partitions: int, number: int = 0, starts: Sequence[int] | None = None
    ) -> None:
        self.number = number
        self.ends: tuple[int, ...] = tuple(starts) if starts is not None else (0,) * partitions
        self.received: list[int] = list(self.ends)
        self._cut_number = number
        self._cut_ends = self.ends
        self._cuts: deque[Cut] = deque()
        self._buffers = [_Buffer() for _ in range(partitions)]
        self._partition = 0

    @property
    def newest_cut(self) -> tuple[int, tuple[int, ...]]:
        """Number and ends of the newest cut that counts, applied or not."""
        return self._cut_number, self._cut_ends

    def buffered(self, partition: int) -> int:
        """Return how many delivered records of a partition wait for their round."""
        return len(self._buffers[partition])

    def cut(self, cut: Cut) -> bool:
        """Take one record of the cut log; False where it does not count."""
        counts = (
            cut.number == self._cut_number + 1
            and len(cut.ends) == len(self._cut_ends)
            and all(new >= old for new, old in zip(cut.ends, self._cut_ends, strict=True))
            and cut.ends != self._cut_ends
        )
        if counts:
            self._cut_number, self._cut_ends = cut.number, cut.ends
            self._cuts.append(cut)
        return counts

    def deliver(self, partition: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Take one record; one that was delivered before is ignored."""
        if offset < self.received[partition]:
            return
        buffer = self._buffers[partition]
        buffer.offsets.append(offset)
        buffer.keys.append(key)
        buffer.values.append(value)
        self.received[partition] = offset + 1

    def reached(self, partition: int, position: int) -> None:
        """Learn that every record below `position` was delivered or does not exist."""
        self.received[partition] = max(self.received[partition], position)

    def step(self, limit: int = 1024, size_limit: int = 1 << 17) -> Step | None:
        """Return the next piece of the canonical order, or None until more is delivered."""
        while self._cuts:
            cut = self._cuts[0]
            if self._partition == len(cut.ends):
                self._cuts.popleft()
                self._partition = 0
                self.number, self.ends = cut.number, cut.ends
                return Step(None, cut)
            partition, end = self._partition, cut.ends[self._partition]
            offsets, keys, values = self._buffers[partition].take(end, limit, size_limit)
            if offsets:
                if offsets[0] < self.ends[partition]:
                    raise OrderError(f"offset {offsets[0]} of partition {partition} came twice")
                return Step(Run(partition, offsets, keys, values), None)
            if self.received[partition] < end:
                return None
            self._partition += 1
        return None
