"""Which changes of the exchange count, and which a merge takes.

    exchange, partition of shard s     1   2   2   4   3        numbers of the records
    counts                             1   2           3        the next number, once

A shard publishes what it has learned as numbered changes in a partition of its own. One that was
published twice, by a frozen worker or out of order does not count, for any reader. A merge of a
cut log names an end offset for each partition: what counts below it is merged, shard by shard, by
offset. So what a shard has merged is a function of the logs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from stream_app.wire.exchange import Change


class Merged(NamedTuple):
    """What a state has merged: for each shard the number of its last change, and the offset after
    what was read of it."""

    numbers: tuple[int, ...]
    ends: tuple[int, ...]

    @classmethod
    def nothing(cls, shards: int) -> Merged:
        """Return what a new state has merged."""
        return cls((0,) * shards, (0,) * shards)

    def precedes(self, ends: Sequence[int]) -> bool:
        """Return whether a merge up to these ends adds to it; one that does not has no effect."""
        return (
            len(ends) == len(self.ends)
            and all(new >= old for new, old in zip(ends, self.ends, strict=True))
            and tuple(ends) != self.ends
        )


class Exchange:
    """The changes behind `merged`, as they are delivered."""

    def __init__(self, merged: Merged) -> None:
        self.merged = merged
        self._counted = list(merged.numbers)
        self._received = list(merged.ends)
        self._waiting: list[deque[tuple[int, Change, int]]] = [deque() for _ in merged.ends]
        self.size = 0
        """Bytes of the records that wait for their merge."""

    @property
    def ends(self) -> tuple[int, ...]:
        """For each shard the offset after its last change that counts."""
        return tuple(
            waiting[-1][0] + 1 if waiting else end
            for waiting, end in zip(self._waiting, self.merged.ends, strict=True)
        )

    @property
    def received(self) -> tuple[int, ...]:
        """For each shard the offset up to which its records were delivered."""
        return tuple(self._received)

    def deliver(self, shard: int, offset: int, change: Change | None, size: int) -> bool:
        """Take a record of a shard, None for one that is no change; return whether it counts."""
        if offset < self._received[shard]:
            return False
        self._received[shard] = offset + 1
        if change is None or change.number != self._counted[shard] + 1:
            return False
        self._counted[shard] = change.number
        self._waiting[shard].append((offset, change, size))
        self.size += size
        return True

    def reached(self, shard: int, position: int) -> None:
        """Record that every record below `position` was delivered or does not exist."""
        self._received[shard] = max(self._received[shard], position)

    def covers(self, ends: Sequence[int]) -> bool:
        """Return whether every record below these ends was delivered or does not exist."""
        return all(at >= end for at, end in zip(self._received, ends, strict=True))

    def take(self, ends: Sequence[int]) -> tuple[Change, ...]:
        """Return the changes of a merge, which is then behind us."""
        found: list[Change] = []
        for waiting, end in zip(self._waiting, ends, strict=True):
            while waiting and waiting[0][0] < end:
                _, change, size = waiting.popleft()
                self.size -= size
                found.append(change)
        waits = (each[0][1].number - 1 if each else None for each in self._waiting)
        numbers = (
            counted if waiting is None else waiting
            for counted, waiting in zip(self._counted, waits, strict=True)
        )
        self.merged = Merged(tuple(numbers), tuple(ends))
        return tuple(found)
