"""The head: the items whose pairs are counted, one slot each, chosen by their counts.

An item takes a free slot with its first report. Once all are taken, the slots go to the items that
are reported most, at the ends of rounds at which the number of all reports has grown by a quarter
since the last election:

    candidates, most reports first, against slots, fewest reports first:
    the candidate takes the slot if   4 reports(candidate) >= 5 reports(slot's item) + 32

Ties go to the lower key. Counts are exact and rounds are those of the log, so the head is a
function of the log.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.machine.dirty_pages import touch_words
from stream_app.models.growing_arrays import GrowingArrays
from stream_app.models.paged_arrays import Arrays, mark_dirty

MOST_ITEMS = 4096  # the slot of an entry has 12 bits
_TOTAL, _ELECTED = range(2)


class ItemHead(GrowingArrays):
    """At most `size` items, by their rows in a directory, and the reports of all items.

    rows (size,) int64: the item of each slot, -1 where it is free; counts (items,) int64; totals
    (2,) int64: all reports, and how many there were at the last election.
    """

    growing: ClassVar[frozenset[str]] = frozenset({"counts"})

    def __init__(self, size: int) -> None:
        if not 1 <= size <= MOST_ITEMS:
            raise ValueError(f"head_items {size}: the head has 1 to {MOST_ITEMS} items, or 0: none")
        super().__init__()
        self.rows = self.keep("rows", np.full(size, -1, np.int64))
        self.totals = self.keep("totals", np.zeros(2, np.int64))
        self.keep_growing("counts", np.int64)
        self.slots: NDArray[np.int16] = np.empty(0, np.int16)
        self.used = 0
        self.derive()

    def derive(self) -> None:
        """Find the slot of each item again."""
        self.slots = np.full(len(self.room("counts")), -1, np.int16)
        self.used = int((self.rows >= 0).sum())
        self.slots[self.rows[: self.used]] = np.arange(self.used)

    def extend_to(self, items: int) -> None:
        """Make room for the counts of `items` items."""
        self.extend("counts", items)
        missing = len(self.room("counts")) - len(self.slots)
        if missing > 0:
            self.slots = np.concatenate((self.slots, np.full(missing, -1, np.int16)))

    def mark_slots(self) -> None:
        """Mark the small arrays, before ratings are counted."""
        for name in ("rows", "totals"):
            mark_dirty(self.pages(name), 0, self.room(name).nbytes)

    def elect(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Hold an election if it is due, with the items' keys (n,); return the slots that have
        changed hands."""
        size = len(self.rows)
        due = 4 * self.totals[_TOTAL] >= 5 * self.totals[_ELECTED]
        if self.used < size or len(keys) <= size or not due:
            return np.empty(0, np.int64)
        self.mark_slots()
        self.totals[_ELECTED] = self.totals[_TOTAL]
        counts = self.room("counts")[: len(keys)]
        held = counts[self.rows]
        weakest = np.lexsort((~keys[self.rows], held))
        outside = np.flatnonzero(
            (self.slots[: len(keys)] < 0) & (4 * counts >= 5 * int(held[weakest[0]]) + 32)
        )
        best = outside[np.lexsort((keys[outside], -counts[outside]))][:size]
        weakest = weakest[: len(best)]
        won = int((4 * counts[best] >= 5 * held[weakest] + 32).sum())
        best, slots = best[:won], weakest[:won]
        self.slots[self.rows[slots]] = -1
        self.rows[slots] = best
        self.slots[best] = slots
        return np.sort(slots)

    def forget_counts(self, rows: NDArray[np.int64]) -> None:
        """Set the counts of rows without a slot (m,) to 0: they have another item now."""
        touch_words(self.pages("counts"), rows)
        self.room("counts")[rows] = 0

    def check(self, arrays: Arrays) -> None:
        """Raise ValueError unless each slot in use holds another item."""
        rows, items = arrays["rows"], len(arrays["counts"])
        used = int((rows >= 0).sum())
        taken = rows[:used]
        if (taken >= items).any() or (rows[used:] != -1).any() or len(np.unique(taken)) != used:
            raise ValueError(f"rows of {used} slots: each slot holds another one of {items} items")
