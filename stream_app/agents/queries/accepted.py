"""The queries that were read and have no outcome yet, so that none is committed before its reply.

    partition   0 1 2 3 4 5 6 | 7        read: 0 .. 6, replies acknowledged: 0 1 3
                    ^                    the group goes on with 2 if this worker ends now

A query is behind the group once the broker has its reply. So a query is answered at least once: one
whose worker was killed in between is read again, and a second reply to it has the same correlation
id, of which readers take the first. Without I/O; for one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

Done = Callable[[], object]


class Accepted:
    """By partition, the offset behind the last query read, and those without an outcome."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}
        self._open: dict[int, dict[int, None]] = {}  # in the order of the offsets
        self._stored: dict[int, int] = {}

    def begin(self, partition: int) -> None:
        """Follow a partition that was assigned."""
        self._open[partition] = {}

    def end(self, partition: int) -> None:
        """Forget a partition: what is done of it from now on is another worker's to commit."""
        for each in (self._next, self._open, self._stored):
            each.pop(partition, None)

    def read(self, partition: int, offset: int) -> Done:
        """Note that a query was read; returns what to call at its outcome."""
        queries = self._open.get(partition)
        if queries is None:  # taken away between the two
            return _nothing
        self._next[partition], queries[offset] = offset + 1, None
        return lambda: queries.pop(offset, None)

    def waiting(self, partitions: Collection[int]) -> int:
        """Return how many queries of these partitions have no outcome."""
        return sum(len(self._open.get(partition, ())) for partition in partitions)

    @property
    def partitions(self) -> list[int]:
        """The partitions that are followed."""
        return list(self._open)

    def places(self) -> dict[int, int]:
        """Return where the group goes on, of the partitions where that has moved since the last
        call."""
        found = {p: next(iter(self._open[p]), end) for p, end in self._next.items()}
        moved = {p: offset for p, offset in found.items() if self._stored.get(p) != offset}
        self._stored |= moved
        return moved


def _nothing() -> None:
    """Do nothing."""
