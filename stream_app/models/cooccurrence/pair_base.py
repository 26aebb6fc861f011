"""The tables of a feed of pairs with the moments of its items, and what is merged of all shards.

    pairs, between, within      4 bytes each for each two items of the head: together 48 MiB at
                                2,048 items, 192 at 4,096; `pairs` alone where visits are not kept
    counts, moments by item     of the feed: all that is known; a change is what the base lacks
    tables by pair of items     of the feed: what is not merged; base and feed together are all

A merge of another shard's tables, of thousands of cells, therefore writes to one table alone. The
base has the slots of the feed: one that changes hands is cleared in both. `ItemPairs` holds it
where there are several shards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.cooccurrence.pair_tables import clear_slots
from stream_app.kernels.exchange.pair_changes import (
    add_cells,
    add_counts,
    list_cells,
    take_cells,
)
from stream_app.kernels.instrumentation import timed
from stream_app.kernels.machine.dirty_pages import touch_words
from stream_app.models.cooccurrence.item_head import ItemHead
from stream_app.models.growing_arrays import GrowingArrays
from stream_app.models.paged_arrays import Arrays, DirtyMap, FixedArrays, mark_dirty

TABLES = ("pairs", "pairs_high", "between", "between_high", "within", "within_high")
Half = NDArray[np.uint16]


class Moments(FixedArrays):
    """pairs, between, within (size, size): sums in two halves, uint16 each; moments (size, 3)
    int64; numbers (3,) int64. complete: adds to the tables what waits; called before they are read
    or replaced."""

    def __init__(
        self, size: int, *, in_order: bool, complete: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__()
        self.complete = complete
        self.moments = self.keep("moments", np.zeros((size, 3), np.int64))
        self.numbers = self.keep("numbers", np.zeros(3, np.int64))
        self.pairs = self._halves("pairs", size)
        self.between = self._halves("between", size if in_order else 0)
        self.within = self._halves("within", size if in_order else 0)

    def _halves(self, name: str, size: int) -> tuple[Half, Half]:
        low, high = (np.zeros((size, size), np.uint16) for _ in range(2))
        if size:
            self.keep(name, low)
            self.keep(f"{name}_high", high)
        return low, high

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state itself, not a copy; it is whole until ratings are counted."""
        self.complete()
        return super().arrays()

    def dirty_pages(self) -> dict[str, DirtyMap]:
        """Return the dirty-page map of each array, with the marks of what waited."""
        self.complete()
        return super().dirty_pages()

    def own_maps(self) -> dict[str, DirtyMap]:
        """Return the dirty-page maps as they are, for what counts and adds."""
        return super().dirty_pages()

    def load(self, arrays: Arrays) -> None:
        """Replace the state by what `arrays()` returned; raises ValueError where it does not
        fit."""
        self.complete()
        super().load(arrays)

    def take(self, smaller: Moments) -> None:
        """Continue the sums of a head of fewer slots, which are the first ones."""
        arrays, pages, held = super().arrays(), super().dirty_pages(), smaller.arrays()
        for name, own in arrays.items():
            rows = held[name]
            mark_dirty(pages[name], 0, own[: len(rows)].nbytes)
            own[tuple(slice(length) for length in rows.shape)] = rows

    def clear(self, slots: NDArray[np.int64]) -> None:
        """Clear all that is known of slots."""
        arrays, pages = super().arrays(), super().dirty_pages()
        for name in TABLES:
            if name in arrays:
                clear_slots(arrays[name], pages[name], slots)
        mark_dirty(pages["moments"], 0, self.moments.nbytes)
        self.moments[slots] = 0


NAMES = TABLES[::2]  # of the lower halves
_CELL_BYTES, _HALF = 3, 2**16 - 1
_MOST_COUNT, _MOST_MOMENT = 2**32 - 1, 2**31 - 1


class Window:
    """A place in a list of rows, so that those which did not fit come first the next time."""

    def __init__(self) -> None:
        self._first = 0

    def taken(self, rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
        """Return at most so many of rising rows, from the place on and around."""
        if len(rows) <= most:
            return rows
        start = int(np.searchsorted(rows, self._first))
        found = np.roll(rows, -start)[:most]
        self._first = int(found[-1]) + 1
        return found


class CellRows(NamedTuple):
    """Rows (n,) uint16 of a table as lists of cells; `kernels/exchange/pair_changes.py`."""

    rows: NDArray[np.uint16]
    sizes: NDArray[np.uint16]
    gaps: NDArray[np.uint8]
    values: NDArray[np.uint16]
    large: NDArray[np.uint32]


class FeedChange(NamedTuple):
    """What a feed has beyond its base: keys (k,) uint64 with counts (k,) uint32 and moments (k, 3)
    int32, numbers (1, 3) int64, and tables by name, whose rows and columns are of head (h,)."""

    keys: NDArray[np.uint64]
    counts: NDArray[np.uint32]
    moments: NDArray[np.int32]
    numbers: NDArray[np.int64]
    head: NDArray[np.uint64]
    tables: dict[str, CellRows]


class PairBase(GrowingArrays):
    """The base of a feed with `size` slots: counts (items,) int64, and `sums` by slot."""

    growing: ClassVar[frozenset[str]] = frozenset({"counts"})

    def __init__(self, size: int, *, in_order: bool) -> None:
        super().__init__()
        self.keep_growing("counts", np.int64)
        self.sums = Moments(size, in_order=in_order)
        self._window = Window()
        self._next: tuple[int, int] | None = None  # table and row where the next list begins

    def take(self, smaller: PairBase) -> None:
        """Continue the base of a head of fewer slots, which are the first ones."""
        self.load(smaller.arrays())
        self.sums.take(smaller.sums)

    def forget_counts(self, rows: NDArray[np.int64]) -> None:
        """Set the counts of rows (m,) to 0: they have another item now."""
        touch_words(self.pages("counts"), rows)
        self.room("counts")[rows] = 0

    @property
    def waits(self) -> bool:
        """Whether rows of tables did not fit in the last change."""
        return self._next is not None

    def difference(
        self, head: ItemHead, own: Moments, keys: NDArray[np.uint64], most: int
    ) -> FeedChange:
        """Return the counts and moments beyond the base of at most so many items, of those with
        these keys (items,); its tables are empty."""
        counts = head.room("counts")[: len(keys)] - self.room("counts")[: len(keys)]
        used = head.used
        by_slot = own.moments[:used] - self.sums.moments[:used]
        moments = np.zeros((len(keys), 3), np.int64)
        moments[head.rows[:used]] = by_slot
        rows = self._window.taken(np.flatnonzero((counts > 0) | moments.any(axis=1)), most)
        rows = rows[np.argsort(keys[rows])]
        limit, numbers = _MOST_MOMENT, own.numbers - self.sums.numbers
        return FeedChange(
            keys[rows],
            np.clip(counts[rows], 0, _MOST_COUNT).astype(np.uint32),
            np.clip(moments[rows], -limit, limit).astype(np.int32),
            numbers[None] if numbers.any() else numbers[:0].reshape(0, 3),
            np.empty(0, np.uint64),
            {},
        )

    def cells(self, used: int, own: Moments, room_bytes: int) -> dict[str, CellRows]:
        """Return rows of tables beyond the base in about so many bytes, after those of the last
        call; `waits` while some are left. The tables must be complete."""
        first, found = self._next or (0, 0), {}
        names = [name for name in NAMES if name in own.own_maps()]
        self._next = None
        for number in range(first[0], len(names)):
            name, row = names[number], first[1] if number == first[0] else 0
            stop, found[name] = self._rows(name, row, used, own, max(room_bytes, 0))
            room_bytes -= sum(column.nbytes for column in found[name])
            if stop < used:
                self._next = number, stop
                break
        return found

    def _rows(
        self, name: str, first: int, used: int, own: Moments, room_bytes: int
    ) -> tuple[int, CellRows]:
        """Return the row after the last that fits, and the rows of a table from the first on."""
        cells = room_bytes // _CELL_BYTES
        sizes, columns = np.zeros(used, np.uint16), np.empty(used + 1, np.int64)
        gaps, values = np.empty(cells, np.uint8), np.empty(cells, np.uint16)
        large = np.empty(cells // 4, np.uint32)
        given = first, used, sizes, gaps, values, large, columns
        stop, many, most = timed(list_cells, *getattr(own, name), *given)
        rows = np.flatnonzero(sizes)
        return stop, CellRows(
            rows.astype(np.uint16), sizes[rows], gaps[:many], values[:many], large[:most]
        )

    def add(
        self,
        head: ItemHead,
        own: Moments,
        change: FeedChange,
        places: tuple[NDArray[np.int64], NDArray[np.int64]],
        *,
        foreign: bool,
    ) -> None:
        """Add a change to the base and, where it is of another shard, to the feed; places: the rows
        of its keys and of its head, -1 for an item without one."""
        rows, of_head = places
        names = ("counts", "recent")
        head.mark_slots()
        for part in (own, self.sums):
            pages = part.own_maps()
            mark_dirty(pages["moments"], 0, part.moments.nbytes)
            mark_dirty(pages["numbers"], 0, part.numbers.nbytes)
        head.used = timed(
            add_counts, head.rows, head.slots, *map(head.room, names), head.totals, head.used,
            self.room("counts"), *map(head.pages, names), self.pages("counts"), own.moments,
            self.sums.moments, rows, *_writable(change.counts, change.moments), foreign,
        )  # fmt: skip
        self.sums.numbers += change.numbers.sum(axis=0)
        if foreign:
            own.numbers += change.numbers.sum(axis=0)
        slots = np.where(of_head >= 0, head.slots[of_head], -1).astype(np.int64)
        for name, lists in change.tables.items():
            if not len(lists.rows) or name not in own.own_maps():
                continue
            columns = _writable(*lists)
            if not foreign:
                columns = tuple(column.copy() for column in columns)
                timed(take_cells, *_table(own, name), *columns, slots)
            timed(add_cells, *_table(self.sums, name), *columns, slots)


def _writable(*columns: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Return columns as kernels take them."""
    return tuple(np.require(column, None, ["C", "W"]) for column in columns)


def _table(sums: Moments, name: str) -> tuple[NDArray[Any], ...]:
    """Return a table and its pages, as kernels take them."""
    pages = sums.own_maps()
    return *getattr(sums, name), pages[name], pages[f"{name}_high"]


def both(own: tuple[Half, Half], base: tuple[Half, Half], used: int) -> tuple[Half, Half]:
    """Return the sums of two tables (used, used)."""
    low, high = (own[half][:used, :used].astype(np.uint32) for half in (0, 1))
    low += base[0][:used, :used]
    high += base[1][:used, :used] + (low >> 16)
    low[high > _HALF] = _HALF
    return low.astype(np.uint16), np.minimum(high, _HALF).astype(np.uint16)
