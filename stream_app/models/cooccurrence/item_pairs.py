"""One feed of pairs: a head of items, the devices' recent items, and their second moments.

`kernels/cooccurrence/pair_counts.py` has the equations. The state is a function of the records in
order and of the ends of rounds, at which the head is elected; everything is an integer.

    pairs, ordered   4 bytes for each two items of the head: 32 MiB at 2,048 items, 128 at 4,096
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.cooccurrence.device_lists import BLOCK
from stream_app.kernels.cooccurrence.pair_counts import (
    DEVICES,
    IN_ORDER,
    RATINGS,
    count_records,
)
from stream_app.kernels.cooccurrence.pair_tables import add_waiting
from stream_app.kernels.kernel_time import timed
from stream_app.models.cooccurrence.item_head import MOST_ITEMS, ItemHead
from stream_app.models.cooccurrence.pair_snapshot import PairSnapshot
from stream_app.models.cooccurrence.recent_items import RecentItems
from stream_app.models.factorization.channels import Channels
from stream_app.models.paged_arrays import Arrays, DirtyMap, FixedArrays, StatePart, mark_dirty

ORDER_ONE = 64  # the integer weight of an ordered pair without decay
ORDER_WINDOW, ORDER_DECAY = 50, 20.0  # entries
MOST_RECENT = 1024
TABLES = ("pairs", "pairs_high", "ordered", "ordered_high")
_WINDOW, _WAITING = 1 << 18, 1 << 16  # entries and ratings: 2 MiB of scratch

# round(ORDER_ONE exp(-distance / ORDER_DECAY)) for distances 1 .. ORDER_WINDOW: no product lies so
# near to a half that the last bit of `exp` decides.
DECAY = np.floor(ORDER_ONE * np.exp(-np.arange(1, ORDER_WINDOW + 1) / ORDER_DECAY) + 0.5).astype(
    np.int64
)


Half = NDArray[np.uint16]


class RecordColumns(NamedTuple):
    """n records in log order and their m ratings.

    devices, sizes (n,) int64: the row of each record's device, and its ratings. The other columns
    (m,): rows of items, channel, report, predicted rating; a rating that is `skipped` is not
    counted.
    """

    devices: NDArray[np.int64]
    sizes: NDArray[np.int64]
    rows: NDArray[np.int64]
    channels: NDArray[np.uint16]
    reports: NDArray[np.uint8]
    predicted: NDArray[np.float64]
    skipped: NDArray[np.bool_]


class Moments(FixedArrays):
    """pairs, ordered (size, size): sums in two halves, uint16 each; moments (size, 3) int64;
    numbers (2,) int64. complete: adds to the tables what waits; called before they are read or
    replaced."""

    def __init__(
        self, size: int, *, in_order: bool, complete: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__()
        self._complete = complete
        self.moments = self.keep("moments", np.zeros((size, 3), np.int64))
        self.numbers = self.keep("numbers", np.zeros(2, np.int64))
        self.pairs = self._halves("pairs", size)
        self.ordered = self._halves("ordered", size if in_order else 0)

    def _halves(self, name: str, size: int) -> tuple[Half, Half]:
        low, high = (np.zeros((size, size), np.uint16) for _ in range(2))
        if size:
            self.keep(name, low)
            self.keep(f"{name}_high", high)
        return low, high

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state itself, not a copy; it is whole until ratings are counted."""
        self._complete()
        return super().arrays()

    def dirty_pages(self) -> dict[str, DirtyMap]:
        """Return the dirty-page map of each array, with the marks of what waited."""
        self._complete()
        return super().dirty_pages()

    def own_maps(self) -> dict[str, DirtyMap]:
        """Return the dirty-page maps as they are, for what counts and adds."""
        return super().dirty_pages()

    def load(self, arrays: Arrays) -> None:
        """Replace the state by what `arrays()` returned; raises ValueError where it does not
        fit."""
        self._complete()
        super().load(arrays)

    def clear(self, slots: NDArray[np.int64]) -> None:
        """Clear all that is known of slots, and mark everything."""
        self.mark_all_dirty()
        kept = np.ones(len(self.moments), np.uint16)
        kept[slots] = 0
        for table in (*self.pairs, *self.ordered):
            if table.size:
                table[slots] = 0
                # Row by row: to set the columns of half a head one after another takes .3 s.
                np.multiply(table, kept, out=table)
        self.moments[slots] = 0


class ItemPairs:
    """The pairs of a head of `size` items in lists of at most `recent` items.

    weights (R, bins) uint8: of each report (`like_weights.py`), `one` the largest possible.
    in_order: count pairs from earlier to later, too, where records hold one rating.
    """

    def __init__(
        self,
        channels: Channels,
        weights: NDArray[np.uint8],
        size: int,
        recent: int,
        *,
        one: int,
        in_order: bool,
    ) -> None:
        self.head = ItemHead(size)
        self.lists = RecentItems(-(-recent // BLOCK))
        self._moments = Moments(size, in_order=in_order, complete=self._add_waiting)
        self._starts, self._alphabets = channels.starts, channels.alphabets
        self._weights, self._one = np.ascontiguousarray(weights), one
        self._pending = np.zeros(2, np.int64)
        self._scratch = (
            np.empty(_WINDOW, np.uint16),
            np.empty((_WAITING, 4), np.int32),
            self._pending,
            (
                np.empty(size + 1, np.int32),
                np.empty(_WAITING, np.uint64),
                np.zeros(size, np.uint16),
            ),
        )

    def parts(self) -> dict[str, StatePart]:
        """Return the parts of the state by name."""
        return {"head": self.head, "lists": self.lists, "moments": self._moments}

    def extend(self, items: int, devices: int) -> None:
        """Make the state that of so many known items and devices."""
        self.head.extend_to(items)
        self.lists.extend("ends", devices)

    def count(self, columns: RecordColumns) -> None:
        """Count records of known items and devices, in order."""
        head, lists, moments = self.head, self.lists, self._moments
        blocks = lists.length("blocks")
        most = blocks + len(columns.rows) // BLOCK + 2 * len(columns.devices)
        lists.reserve("blocks", most)
        lists.reserve("links", most)
        pages = moments.own_maps()
        head.mark_slots()
        mark_dirty(pages["moments"], 0, moments.moments.nbytes)
        mark_dirty(pages["numbers"], 0, moments.numbers.nbytes)
        head.used, blocks = timed(
            count_records, head.rows, head.slots, head.room("counts"), head.totals, head.used,
            lists.room("ends"), lists.room("blocks"), lists.room("links"), lists.room("free"),
            blocks, lists.most,
            moments.moments, moments.numbers,
            self._tables(),
            head.pages("counts"), lists.pages("ends"), lists.pages("blocks"), lists.pages("links"),
            lists.pages("free"), *self._scratch, *columns, self._starts, self._alphabets,
            self._weights,
        )  # fmt: skip
        lists.extend("blocks", blocks)
        lists.extend("links", blocks)

    def _tables(self) -> tuple[NDArray[Any], ...]:
        """Return the first arguments of `add_waiting`."""
        moments, none = self._moments, np.empty(0, np.uint8)
        pages = moments.own_maps()
        maps = (pages.get(name, none) for name in TABLES)
        return (*moments.pairs, *moments.ordered, DECAY, *maps)

    def _add_waiting(self) -> None:
        """Add the ratings that wait to the tables."""
        window, waiting, pending, scratch = self._scratch
        if pending[RATINGS]:
            timed(add_waiting, *self._tables(), window, waiting, int(pending[RATINGS]), *scratch)
        pending[:] = 0

    def elect(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """End a round: add what waits, and give slots to the items that are reported most, where
        that is due; return the slots that have changed hands."""
        self._add_waiting()
        slots = self.head.elect(keys)
        if len(slots):
            self._moments.clear(slots)
            self.lists.remove(slots)
        return slots

    def clear(self, device: int) -> None:
        """Empty the list of a device."""
        self.lists.clear(device)

    def release(self, devices: NDArray[np.int64]) -> None:
        """Clear the lists of devices (n,), whose rows other devices take; what they had together
        stays counted."""
        self.lists.extend("ends", int(devices.max()) + 1)  # a forged state may have fewer
        self.lists.release(devices)

    def history(self, device: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the items (rows) of a device, oldest first, and their weights in 0 .. 1."""
        slots, weights = self.lists.of_device(device)
        return self.head.rows[slots], (weights / self._one).astype(np.float32)

    @property
    def devices(self) -> int:
        """How many devices have had a list."""
        return int(self._moments.numbers[DEVICES])

    @property
    def reports(self) -> int:
        """How many reports were counted, of any item."""
        return int(self.head.totals[0])

    def snapshot(
        self,
        keys: NDArray[np.uint64],
        cut: int,
        held_out: float,
        channel: tuple[float, float] | None,
    ) -> PairSnapshot:
        """Return a copy of the moments, with the keys of all items (n,)."""
        self._add_waiting()
        used, moments = self.head.used, self._moments
        in_order = moments.ordered[0].size and moments.numbers[IN_ORDER]
        return PairSnapshot(
            keys[self.head.rows[:used]],
            _copies(moments.pairs, used),
            _copies(moments.ordered, used) if in_order else None,
            moments.moments[:used].copy(),
            moments.numbers.copy(),
            held_out,
            float(ORDER_ONE),
            channel,
            cut,
        )

    @property
    def memory_bytes(self) -> int:
        """Size of the state."""
        return self.head.memory_bytes + self.lists.memory_bytes + self._moments.memory_bytes


def _copies(halves: tuple[Half, Half], used: int) -> tuple[Half, Half]:
    low, high = halves
    return low[:used, :used].copy(), high[:used, :used].copy()


def check_pairs(head_items: int, recent_items: int) -> None:
    """Raise ValueError unless a head of so many items and lists of so many are possible."""
    if not 0 <= head_items <= MOST_ITEMS:
        raise ValueError(f"head_items {head_items}: from 0, which counts no pairs, to {MOST_ITEMS}")
    if not BLOCK <= recent_items <= MOST_RECENT or recent_items % BLOCK:
        raise ValueError(
            f"recent_items {recent_items}: a multiple of {BLOCK}, {BLOCK} to {MOST_RECENT}"
        )
