"""The items that have a row: at most so many, chosen by their reports.

A row is what lists, the index over vectors, gauges and pairs know an item by. The learner, the seen
filter and the counts need none: an item without a row is learned and counted like any other, and no
record is rejected for it.

Items take rows in the order of their first report. Once all rows are taken an item waits outside
until it has been reported `threshold` times among the latest reports of such items, and takes the
row of an item that is no longer reported at the end of that round (`kernels/stream/item_rows.py`
has the rule). Counts are integers and rounds are those of the log, so rows are a function of the
log; which keys share a slot of the map is not, and shows nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.instrumentation import timed
from stream_app.kernels.stream import item_rows as kernels
from stream_app.kernels.stream.hash_index import add_all, rehash, rows_of
from stream_app.models.growing_arrays import GrowingArrays
from stream_app.models.paged_arrays import Arrays
from stream_app.models.seeds import secret_seed

_LEAST = 16  # rows


class ItemDirectory:
    """A map from uint64 keys to rows 0, 1, 2, ... by first appearance; nothing is removed."""

    def __init__(self) -> None:
        self._seed = secret_seed()
        self._count = 0
        self._keys: NDArray[np.uint64] = np.empty(_LEAST, np.uint64)
        self._slots = np.full(2 * _LEAST, -1, np.int64)

    def __len__(self) -> int:
        return self._count

    @property
    def keys(self) -> NDArray[np.uint64]:
        """The keys in row order."""
        return self._keys[: self._count]

    def rows(self, keys: NDArray[np.uint64], *, add: bool = False) -> NDArray[np.int64]:
        """Return the row of each key; an unknown one is added if `add`, else its row is -1."""
        keys = np.ascontiguousarray(keys, np.uint64)
        rows = np.empty(len(keys), np.int64)
        if add:
            self._reserve(self._count + len(keys))
            self._count = add_all(self._slots, self._keys, self._seed, self._count, keys, rows)
        else:
            rows_of(self._slots, self._keys, self._seed, keys, rows)
        return rows

    def _reserve(self, room: int) -> None:
        """Make sure that `room` rows fit; the table doubles, so adding single keys stays cheap."""
        if room > len(self._keys):
            keys = np.empty(1 << (room - 1).bit_length(), np.uint64)
            keys[: self._count] = self.keys
            self._keys, self._slots = keys, np.full(2 * len(keys), -1, np.int64)
            rehash(self._slots, keys, self._seed, self._count)


MOST_ITEMS = 2**31 - 1
_BY_ROW = ("keys", "reports", "credit")
_DEPTH = 4


@dataclass(frozen=True)
class Admission:
    """When an item from outside takes a row.

    threshold: reports of it, in the sketch of `width` cells a row, among the latest `width` reports
    from outside. waiting: most items that wait at once. steps: most rows that the hand passes at
    the end of a round.
    """

    threshold: int = 8
    width: int = 1 << 16
    waiting: int = 1024
    steps: int = 1 << 16


class KnownItems(GrowingArrays):
    """At most `most` items; `seed` is that of the sketch of those outside.

    keys (n,) uint64, reports (n,) int64 since the item has its row, credit (n,) uint8: by row.
    outside (4, width) uint8: the sketch. numbers (2,) int64: the hand, and reports from outside.
    """

    growing: ClassVar[frozenset[str]] = frozenset(_BY_ROW)

    def __init__(self, most: int, seed: int = 1, admission: Admission | None = None) -> None:
        check_most(most)
        super().__init__()
        self.most, self._admission = most, admission or Admission()
        self.keep_growing("keys", np.uint64)
        self.keep_growing("reports", np.int64)
        self.keep_growing("credit", np.uint8)
        shape = _DEPTH, self._admission.width
        self._outside = self.keep("outside", np.zeros(shape, np.uint8))
        self._numbers = self.keep("numbers", np.zeros(2, np.int64))
        self._salts = np.array([seed * 64 + _DEPTH * 8 + j for j in range(_DEPTH)], np.uint64)
        self._seed = secret_seed()
        self._waiting = np.zeros(self._admission.waiting, np.uint64)
        self._waiting_slots = np.full(_slots(self._admission.waiting), -1, np.int32)
        self._waits = 0
        self._place()

    def __len__(self) -> int:
        return self.length("keys")

    @property
    def keys(self) -> NDArray[np.uint64]:
        """The keys (n,) in row order."""
        keys: NDArray[np.uint64] = self.room("keys")[: len(self)]
        return keys

    @property
    def reports(self) -> NDArray[np.int64]:
        """How often the item of each row (n,) was counted since it has its row."""
        reports: NDArray[np.int64] = self.room("reports")[: len(self)]
        return reports

    def rows(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the row of each key (m,), -1 for an item without a row."""
        keys = np.ascontiguousarray(keys, np.uint64)
        rows = np.empty(len(keys), np.int64)
        timed(rows_of, self._slots, self.room("keys"), self._seed, keys, rows)
        return rows

    def enter(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Note reports of items (m,) in the order of the log; return their rows, -1 where an item
        has none."""
        keys = np.ascontiguousarray(keys, np.uint64)
        rows = np.empty(len(keys), np.int64)
        count, rule = len(self), self._admission
        self._reserve(min(self.most, count + len(keys)))
        count, self._waits = timed(
            kernels.enter, self._slots, self.room("keys"), self.room("credit"), self.pages("keys"),
            self.pages("credit"), self._seed, count, self.most,
            self._outside, self.pages("outside"), self._numbers, self.pages("numbers"),
            self._salts, rule.width, rule.threshold, self._waiting, self._waiting_slots,
            self._waits, keys, rows,
        )  # fmt: skip
        for name in _BY_ROW:
            self.extend(name, count)
        return rows

    def note(self, keys: NDArray[np.uint64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Note reports of other shards, counts (m,) of items (m,), as far as they count for a row;
        return their rows. None waits for a row: one of its own reports lets it."""
        times = np.clip(counts, 1, self._admission.threshold)
        self.enter(np.repeat(keys, times))
        self._forget_waiting()
        return self.rows(keys)

    def count(self, rows: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Add counts (m,) to the reports of distinct rows (m,)."""
        timed(kernels.add_reports, self.room("reports"), self.pages("reports"), rows, counts)

    def end_round(self, pinned: NDArray[np.int16]) -> NDArray[np.int64]:
        """Give rows to the items that wait; return the rows that have another item now.

        pinned (at least n, or none): 0 or more for a row that keeps its item.
        """
        waits, rule = self._waits, self._admission
        replaced = np.empty(waits, np.int64)
        done = kernels.replace(
            self._slots, *(self.room(name) for name in _BY_ROW),
            *(self.pages(name) for name in _BY_ROW), self._seed, len(self),
            self._numbers, self.pages("numbers"), pinned, self._waiting, waits, rule.threshold,
            rule.steps, replaced,
        )  # fmt: skip
        self._forget_waiting()
        return replaced[:done]

    def check(self, arrays: Arrays) -> None:
        """Raise ValueError unless there is one of each for a row, and each row has another item."""
        count, hand = len(arrays["keys"]), int(arrays["numbers"][kernels.HAND])
        if len({len(arrays[name]) for name in _BY_ROW}) > 1 or count > self.most:
            raise ValueError(
                f"{count} keys, {len(arrays['reports'])} reports, {len(arrays['credit'])} credits: "
                f"use one of each for an item, and at most {self.most} items"
            )
        if not 0 <= hand < max(count, 1):
            raise ValueError(f"hand at row {hand}: there are {count} rows")
        # Sorted: `np.unique` enters the keys, which devices choose, into a table of known hashes.
        ordered = np.sort(arrays["keys"])
        if (ordered[1:] == ordered[:-1]).any():
            raise ValueError(f"{count} keys: one of them occurs twice")

    def derive(self) -> None:
        """Place every row in a map of the right size; no item waits at a cut."""
        self._place()
        self._forget_waiting()

    @property
    def memory_bytes(self) -> int:
        """Memory held, room for growth included."""
        scratch = self._slots.nbytes + self._waiting.nbytes + self._waiting_slots.nbytes
        return super().memory_bytes + scratch

    def _reserve(self, rows: int) -> None:
        if rows <= len(self.room("keys")):
            return
        for name in _BY_ROW:
            self.reserve(name, rows)
        self._place()

    def _place(self) -> None:
        """Place every row in a map of the right size."""
        keys = self.room("keys")
        self._slots = np.full(_slots(len(keys)), -1, np.int32)
        rehash(self._slots, keys, self._seed, len(self))

    def _forget_waiting(self) -> None:
        self._waits = 0
        self._waiting_slots[:] = -1


def _slots(room: int) -> int:
    """Return twice the room, rounded up to a power of two: half of the slots stay free."""
    return 2 << max(room - 1, 0).bit_length()


def check_most(most: int) -> None:
    """Raise ValueError unless at most `most` items can have rows."""
    if not 1 <= most <= MOST_ITEMS:
        raise ValueError(f"items_most {most}: from 1 to {MOST_ITEMS} items can have a row")
