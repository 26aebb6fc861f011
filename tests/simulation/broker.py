"""The state topic of a simulated broker: appends, compaction at any time, damage."""

from __future__ import annotations

import random
from bisect import bisect_left
from typing import NamedTuple

FIRST_OFFSET = 64
"""Where the topic begins: as if what was before had been compacted away."""


class Record(NamedTuple):
    """What the topic holds at an offset."""

    offset: int
    key: bytes
    value: bytes | None


class Topic:
    """A compacted topic of one partition; only the newest record of a key is sure to stay."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.end = FIRST_OFFSET
        self.version = 0
        """Differs whenever what the topic holds has changed."""
        self._newest: dict[bytes, int] = {}

    def append(self, key: bytes, value: bytes | None) -> int:
        """Append a record and return its offset."""
        offset = self.end
        self.records.append(Record(offset, key, value))
        self._newest[key] = offset
        self.end = offset + 1
        self.version += 1
        return offset

    def read(self, offset: int, stop: int, limit: int) -> list[Record]:
        """Return at most `limit` of the records from `offset` to before `stop`."""
        if offset == FIRST_OFFSET and stop == self.end:
            return self.records[:limit]
        first = bisect_left(self.records, offset, key=_offset)
        last = bisect_left(self.records, stop, key=_offset)
        return self.records[first : min(last, first + limit)]

    def compact(self, random_: random.Random) -> int:
        """Remove what is superseded before some offset, tombstones there perhaps too; return how
        many records went."""
        horizon = FIRST_OFFSET + int(random_.random() * (self.end - FIRST_OFFSET + 1))
        tombstones_too, newest = random_.random() < 0.5, self._newest
        before = len(self.records)
        self.records = [
            r
            for r in self.records
            if r[0] >= horizon or (newest[r[1]] == r[0] and not (r[2] is None and tombstones_too))
        ]
        self.version += before != len(self.records)
        return before - len(self.records)

    def flip(self, random_: random.Random) -> bool:
        """Flip one bit of some record's value; False where there is nothing to flip."""
        at = int(random_.random() * (len(self.records) + 1))
        if at >= len(self.records) or not self.records[at].value:
            return False
        value = bytearray(self.records[at].value or b"")
        bit = random_.randrange(8 * len(value))
        value[bit // 8] ^= 1 << bit % 8
        self.records[at] = self.records[at]._replace(value=bytes(value))
        self.version += 1
        return True


def _offset(record: Record) -> int:
    return record.offset
