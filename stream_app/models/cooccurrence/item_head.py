"""The head: the items whose pairs are counted, one slot each, chosen by their counts.

An item takes a free slot with its first report. Once all are taken, elections at the ends of rounds
give the slots to the items of the highest standing, their reports among the latest `mass` ones:

    mass      = clip(total / 5, 2^13, 2^19)
    recent   -= recent / 8 for each mass / 8 reports, so it sums up to about `mass`
    standing  = max(recent, counts * min(mass / total, 1))

    candidates, best first, against slots, weakest first:
    the candidate takes the slot if   4 standing(candidate) >= 5 standing(slot's item) + 32

An election is due after mass / 16 reports, or where the day of the stream is another one than at
the last election. So at any age of the stream an item whose standing is a good head item's has a
slot after a day, or after a sixteenth of `mass`; the item that leaves must be weak both lately and
over all time.

An attacker with the share a of the latest reports and b of all has at most (a + b) mass of standing
to give. To push out n items it must give n of its own 5 / 4 of what the weakest have, and 8 more:

    n items leave only if   sum over the n weakest of (5 / 4 standing + 8) <= (a + b) mass

They come back the same way, once the attacker's items have decayed. Where a round is longer than
`mass` reports, its own reports count as the latest ones: it decays for at most `mass` of them.

Ties go to the lower key. Counts are integers, `recent` in units of 1/256 report, and rounds are
those of the log, so the head is a function of the log.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.cooccurrence.pair_updates import (
    CHANGES,
    DECAYED,
    ELECTED,
    ELECTED_DAY,
    NEWEST_DAY,
    RECENT_ONE,
    STEPS,
    TOTAL,
)
from stream_app.kernels.machine.dirty_pages import touch_words
from stream_app.models.growing_arrays import GrowingArrays
from stream_app.models.paged_arrays import Arrays, mark_dirty

MOST_ITEMS = 4096  # the slot of an entry has 12 bits
_SHARE, _LEAST_MASS, _MOST_MASS = 5, 1 << 13, 1 << 19
_STEP_BITS = 3  # a step takes an eighth, after an eighth of the mass
_ELECTIONS = 16  # in a mass of reports
_MOST_BITS = 35  # of counts, so that their product with a mass stays an int64


class ItemHead(GrowingArrays):
    """At most `size` items, by their rows in a directory, and the reports of all items.

    rows (size,) int64: the item of each slot, -1 where it is free; counts, recent (items,) int64;
    totals (7,) int64: all reports, those at the last election and at the last decay step; steps;
    the newest day of the stream, and that of the last election; slots that have changed hands.
    """

    growing: ClassVar[frozenset[str]] = frozenset({"counts", "recent"})

    def __init__(self, size: int) -> None:
        if not 1 <= size <= MOST_ITEMS:
            raise ValueError(f"head_items {size}: the head has 1 to {MOST_ITEMS} items, or 0: none")
        super().__init__()
        self.rows = self.keep("rows", np.full(size, -1, np.int64))
        self.totals = self.keep("totals", np.zeros(7, np.int64))
        self.keep_growing("counts", np.int64)
        self.keep_growing("recent", np.int64)
        self.slots: NDArray[np.int16] = np.empty(0, np.int16)
        self.used = 0
        self.derive()

    def take(self, smaller: ItemHead) -> None:
        """Continue a head of fewer slots, whose items keep theirs; the others are free."""
        held = smaller.arrays()
        rows = np.full(len(self.rows), -1, np.int64)
        rows[: len(held["rows"])] = held["rows"]
        self.load({**held, "rows": rows})

    def derive(self) -> None:
        """Find the slot of each item again."""
        self.slots = np.full(len(self.room("counts")), -1, np.int16)
        self.used = int((self.rows >= 0).sum())
        self.slots[self.rows[: self.used]] = np.arange(self.used)

    def extend_to(self, items: int) -> None:
        """Make room for the counts of `items` items."""
        self.extend("counts", items)
        self.extend("recent", items)
        missing = len(self.room("counts")) - len(self.slots)
        if missing > 0:
            self.slots = np.concatenate((self.slots, np.full(missing, -1, np.int16)))

    def mark_slots(self) -> None:
        """Mark the small arrays, before ratings are counted."""
        for name in ("rows", "totals"):
            mark_dirty(self.pages(name), 0, self.room(name).nbytes)

    def recent(self) -> NDArray[np.float64]:
        """Return the decayed reports of each item (n,)."""
        found: NDArray[np.float64] = self.arrays()["recent"] / RECENT_ONE
        return found

    def elect(
        self, keys: NDArray[np.uint64], days: tuple[int, int] | None = None
    ) -> NDArray[np.int64]:
        """End a round, whose cut accepts these days, with the items' keys (n,): decay, and hold an
        election if it is due; return the slots that have changed hands."""
        totals, size = self.totals, len(self.rows)
        if days is not None and totals[NEWEST_DAY] != days[1]:
            self.mark_slots()
            totals[NEWEST_DAY] = days[1]
        mass = mass_of(int(totals[TOTAL]))
        self._decay(mass >> _STEP_BITS)
        due = totals[TOTAL] - totals[ELECTED] >= mass // _ELECTIONS
        due |= totals[NEWEST_DAY] != totals[ELECTED_DAY]
        if self.used < size or len(keys) <= size or not due:
            return np.empty(0, np.int64)
        self.mark_slots()
        totals[ELECTED], totals[ELECTED_DAY] = totals[TOTAL], totals[NEWEST_DAY]
        standing = self._standing()[: len(keys)]
        held = standing[self.rows]
        weakest = np.lexsort((~keys[self.rows], held))
        least = 32 * RECENT_ONE
        outside = np.flatnonzero(
            (self.slots[: len(keys)] < 0) & (4 * standing >= 5 * int(held[weakest[0]]) + least)
        )
        best = outside[np.lexsort((keys[outside], -standing[outside]))][:size]
        weakest = weakest[: len(best)]
        won = int((4 * standing[best] >= 5 * held[weakest] + least).sum())
        best, slots = best[:won], weakest[:won]
        self.slots[self.rows[slots]] = -1
        self.rows[slots] = best
        self.slots[best] = slots
        totals[CHANGES] += won
        return np.sort(slots)

    def _decay(self, every: int) -> None:
        """Take the steps that are due, one for `every` reports."""
        totals = self.totals
        due = int(totals[TOTAL] - totals[DECAYED]) // every
        if not due:
            return
        self.mark_slots()
        totals[STEPS] += due
        totals[DECAYED] += due * every
        recent = self.arrays()["recent"]
        mark_dirty(self.pages("recent"), 0, recent.nbytes)
        for _ in range(min(due, 1 << _STEP_BITS)):
            recent -= recent >> _STEP_BITS

    def _standing(self) -> NDArray[np.int64]:
        """Return the standing of each item (n,), in units of `recent`."""
        arrays, total = self.arrays(), int(self.totals[TOTAL])
        found: NDArray[np.int64] = np.maximum(arrays["recent"], recent_of(arrays["counts"], total))
        return found

    def forget_counts(self, rows: NDArray[np.int64]) -> None:
        """Set the counts of rows without a slot (m,) to 0: they have another item now."""
        for name in ("counts", "recent"):
            touch_words(self.pages(name), rows)
            self.room(name)[rows] = 0

    def check(self, arrays: Arrays) -> None:
        """Raise ValueError unless each slot in use holds another item."""
        rows, items = arrays["rows"], len(arrays["counts"])
        numbers = (arrays["counts"], arrays["recent"], arrays["totals"])
        if len(arrays["recent"]) != items or any((each < 0).any() for each in numbers):
            raise ValueError(
                f"counts of {items} items, recent ones of {len(arrays['recent'])}: use one of each "
                "for an item, and no negative number"
            )
        used = int((rows >= 0).sum())
        taken = rows[:used]
        if (taken >= items).any() or (rows[used:] != -1).any() or len(np.unique(taken)) != used:
            raise ValueError(f"rows of {used} slots: each slot holds another one of {items} items")


def mass_of(total: int) -> int:
    """Return how many reports of a stream of `total` are the latest ones."""
    return max(_LEAST_MASS, min(total // _SHARE, _MOST_MASS))


def recent_of(counts: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Return the recent counts (n,) of a stream of `total` reports whose shares do not change."""
    shift = max(total.bit_length() - _MOST_BITS, 0)
    units = min(mass_of(total), total) * RECENT_ONE
    found: NDArray[np.int64] = (counts >> shift) * units // max(total >> shift, 1)
    return found
