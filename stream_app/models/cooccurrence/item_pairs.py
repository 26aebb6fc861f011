"""One feed of pairs: a head of items, the devices' recent items, and their second moments.

`kernels/cooccurrence/pair_updates.py` has the equations. The state is a function of the records in
order and of the ends of rounds, at which the head is elected; everything is an integer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.cooccurrence.device_lists import BLOCK
from stream_app.kernels.cooccurrence.pair_tables import MOST_WINDOW, add_waiting
from stream_app.kernels.cooccurrence.pair_updates import (
    BETWEEN,
    CHANGES,
    DEVICES,
    ORDER_WINDOW,
    RATINGS,
    STEPS,
    TOTAL,
    WITHIN,
    count_records,
)
from stream_app.kernels.cooccurrence.visits import FIELDS
from stream_app.kernels.instrumentation import timed
from stream_app.models.cooccurrence.item_head import MOST_ITEMS, ItemHead
from stream_app.models.cooccurrence.like_weights import like_bits, like_rates
from stream_app.models.cooccurrence.pair_base import (
    TABLES,
    CellRows,
    FeedChange,
    Half,
    Moments,
    PairBase,
    both,
)
from stream_app.models.cooccurrence.recent_items import RecentItems
from stream_app.models.cooccurrence.snapshots import PairSnapshot
from stream_app.models.cooccurrence.visit_lists import DeviceItems, VisitLists
from stream_app.models.factorization.channels import Channels
from stream_app.models.paged_arrays import StatePart, mark_dirty
from stream_app.ranking.visit_events import VisitSample

ORDER_ONE = 64  # the integer weight of an ordered pair without decay
ORDER_DECAY = 20.0  # entries
MOST_RECENT = 1024
MOST_EVENTS = 1_000  # devices from which the weights of a list are learned
_WAITING = 1 << 16  # ratings

# round(ORDER_ONE exp(-distance / ORDER_DECAY)) for distances 1 .. ORDER_WINDOW: no product lies so
# near to a half that the last bit of `exp` decides.
DECAY = np.floor(ORDER_ONE * np.exp(-np.arange(1, ORDER_WINDOW + 1) / ORDER_DECAY) + 0.5).astype(
    np.int64
)


class RecordColumns(NamedTuple):
    """n records in log order and their m ratings.

    devices, sizes, days (n,) int64: the row of each record's device, its ratings, and its day. The
    other columns (m,): rows of items, channel, report, predicted rating; a rating that is `skipped`
    is not counted.
    """

    devices: NDArray[np.int64]
    sizes: NDArray[np.int64]
    days: NDArray[np.int64]
    rows: NDArray[np.int64]
    channels: NDArray[np.uint16]
    reports: NDArray[np.uint8]
    predicted: NDArray[np.float64]
    skipped: NDArray[np.bool_]


class ItemPairs:
    """The pairs of a head of `size` items in lists of at most `recent` items.

    weights (R, bins) uint8: of each report (`like_weights.py`), `one` the largest possible.
    in_order: keep the visits of devices, and count pairs from earlier to later, too. shared: keep
    what is merged of all shards.
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
        shared: bool = False,
    ) -> None:
        self.head = ItemHead(size)
        self.base = PairBase(size, in_order=in_order) if shared else None
        most, self.visits = -(-recent // BLOCK), None
        self.lists = RecentItems(most)
        if in_order:
            self.lists = self.visits = VisitLists(most, len(channels))
        self._moments = Moments(size, in_order=in_order, complete=self._add_waiting)
        self._starts, self._alphabets = channels.starts, channels.alphabets
        self._weights, self._one = np.ascontiguousarray(weights), one
        self._likes, self._like_rates = like_bits(channels), like_rates(channels)
        self._pending = np.zeros(2, np.int64)
        self._scratch = (
            np.empty(MOST_WINDOW, np.uint16),
            np.empty(_WAITING, np.int32),
            np.empty(_WAITING, np.uint64),
            self._pending,
            (
                np.empty(size + 1, np.int32),
                np.empty(_WAITING, np.uint64),
                np.zeros(size, np.uint16),
            ),
        )

    def take(self, old: ItemPairs) -> None:
        """Continue the state of a feed with as many slots and entries or fewer, whose channels are
        the first of these; `old` must not be used again."""
        old._add_waiting()
        old.lists.most = self.lists.most
        if self.visits is not None and old.visits is not None:
            old.visits.channels = self.visits.channels
            self.visits = old.visits
        self.lists = old.lists
        if len(self.head.rows) == len(old.head.rows):
            self.head, self._moments, self.base = old.head, old._moments, old.base
            self._moments.complete = self._add_waiting
        else:
            self.head.take(old.head)
            self._moments.take(old._moments)
            if self.base is not None and old.base is not None:
                self.base.take(old.base)

    def parts(self) -> dict[str, StatePart]:
        """Return the parts of the state by name."""
        own: dict[str, StatePart] = {"lists": self.lists, "moments": self._moments}
        if self.base is not None:
            own |= {"base": self.base, "base_sums": self.base.sums}
        return own | {"head": self.head}

    def extend(self, items: int, devices: int) -> None:
        """Make the state that of so many known items and devices."""
        self.head.extend_to(items)
        if self.base is not None:
            self.base.extend("counts", items)
        self.lists.extend_to(devices)

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
        visits, likes, visits_pages, likes_pages = _NO_VISITS
        if self.visits is not None:
            visits, likes = map(lists.room, ("visits", "likes"))
            visits_pages, likes_pages = map(lists.pages, ("visits", "likes"))
        head.used, blocks = timed(
            count_records, head.rows, head.slots, head.room("counts"), head.room("recent"),
            head.totals, head.used,
            lists.room("ends"), lists.room("blocks"), lists.room("links"), lists.room("free"),
            visits, likes, blocks, lists.most,
            moments.moments, moments.numbers,
            self._tables(),
            head.pages("counts"), head.pages("recent"), lists.pages("ends"), lists.pages("blocks"),
            lists.pages("links"), lists.pages("free"), visits_pages, likes_pages,
            *self._scratch, *columns, self._starts, self._alphabets, self._weights, self._likes,
        )  # fmt: skip
        lists.extend("blocks", blocks)
        lists.extend("links", blocks)

    def _tables(self) -> tuple[NDArray[Any], ...]:
        """Return the first arguments of `add_waiting`."""
        moments, none = self._moments, np.empty(0, np.uint8)
        pages = moments.own_maps()
        maps = (pages.get(name, none) for name in TABLES)
        return (*moments.pairs, *moments.between, *moments.within, DECAY, *maps)

    def _add_waiting(self) -> None:
        """Add the ratings that wait to the tables."""
        *waiting, pending, scratch = self._scratch
        if pending[RATINGS]:
            timed(add_waiting, *self._tables(), *waiting, int(pending[RATINGS]), *scratch)
        pending[:] = 0

    def elect(self, keys: NDArray[np.uint64], days: tuple[int, int] | None = None) -> None:
        """End a round, whose cut accepts these days: add what waits, and give slots to the items
        that are reported most, where that is due."""
        self._add_waiting()
        slots = self.head.elect(keys, days)
        if len(slots):
            self._moments.clear(slots)
            self.lists.remove(slots)
            if self.base is not None:
                self.base.sums.clear(slots)

    def forget_counts(self, rows: NDArray[np.int64]) -> None:
        """Set the counts of rows without a slot (m,) to 0: they have another item now."""
        self.head.forget_counts(rows)
        if self.base is not None:
            self.base.forget_counts(rows)

    def difference(self, keys: NDArray[np.uint64], most: int) -> FeedChange:
        """Return the counts that are not merged of at most so many items, of those with these keys
        (items,); without tables."""
        assert self.base is not None, "a feed of one shard"
        return self.base.difference(self.head, self._moments, keys, most)

    def cells(self, room_bytes: int) -> dict[str, CellRows]:
        """Return rows of tables that are not merged, in about so many bytes, after those of the
        last call."""
        assert self.base is not None, "a feed of one shard"
        self._add_waiting()
        return self.base.cells(self.head.used, self._moments, room_bytes)

    @property
    def waits(self) -> bool:
        """Whether rows of tables did not fit in the last change."""
        return self.base is not None and self.base.waits

    def merge(
        self,
        change: FeedChange,
        rows: NDArray[np.int64],
        head: NDArray[np.int64],
        *,
        foreign: bool,
    ) -> None:
        """Merge a change, of another shard if `foreign`: the rows of its keys and of its head, -1
        for an item without one."""
        assert self.base is not None, "a feed of one shard"
        self._add_waiting()
        self.base.add(self.head, self._moments, change, (rows, head), foreign=foreign)

    def clear(self, device: int) -> None:
        """Empty the list of a device."""
        self.lists.clear(device)

    def release(self, devices: NDArray[np.int64]) -> None:
        """Clear the lists of devices (n,), whose rows other devices take; what they had together
        stays counted."""
        self.lists.extend_to(int(devices.max()) + 1)  # a forged state may have fewer
        self.lists.release(devices)

    def history(self, device: int) -> DeviceItems:
        """Return what is known of a device, items as rows; without visits of one age."""
        if self.visits is not None:
            found = self.visits.history(device, self._one)
        else:
            slots, weights = self.lists.of_device(device)
            none = np.zeros(len(slots), np.int64)
            share = (weights / self._one).astype(np.float32)
            found = DeviceItems(slots, share, none, none.astype(np.float32))
        return found._replace(items=self.head.rows[found.items])

    def visit_samples(self, most: int = MOST_EVENTS) -> tuple[VisitSample, VisitSample]:
        """Return the lists of the `most` devices whose visits are the newest, of those with an
        earlier visit, and of those with ratings that came one by one; see `VisitLists.sample`."""
        assert self.visits is not None, "a feed without visits"
        given = most, int(self.head.totals[STEPS]), self._one, self._like_rates
        visited, alone = (self.visits.sample(*given, singles=each) for each in (False, True))
        return visited, alone

    @property
    def devices(self) -> int:
        """How many devices have had a list."""
        return int(self._moments.numbers[DEVICES])

    @property
    def reports(self) -> int:
        """How many reports were counted, of any item."""
        return int(self.head.totals[TOTAL])

    @property
    def changes(self) -> int:
        """How many slots of the head have changed hands."""
        return int(self.head.totals[CHANGES])

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
        rows, recent = self.head.rows[:used], self.head.recent()
        return PairSnapshot(
            keys[rows], self._copies("pairs"),
            self._copies("between") if moments.numbers[BETWEEN] else None,
            self._copies("within") if moments.numbers[WITHIN] else None,
            recent[rows].astype(np.float32), float(recent.sum()), self.reports,
            moments.moments[:used].copy(), moments.numbers.copy(),
            held_out, float(ORDER_ONE), channel, cut,
        )  # fmt: skip

    def _copies(self, name: str) -> tuple[Half, Half]:
        """Return a copy of a table, with what is merged."""
        low, high = getattr(self._moments, name)
        used = self.head.used
        if self.base is None:
            return low[:used, :used].copy(), high[:used, :used].copy()
        return both((low, high), getattr(self.base.sums, name), used)

    @property
    def memory_bytes(self) -> int:
        """Size of the state."""
        own = self.head.memory_bytes + self.lists.memory_bytes + self._moments.memory_bytes
        return own + (self.base.memory_bytes + self.base.sums.memory_bytes if self.base else 0)


_NO_VISITS = (
    np.empty((0, FIELDS), np.int32), np.empty(0, np.uint64), np.empty(0, np.uint8),
    np.empty(0, np.uint8),
)  # fmt: skip


def check_pairs(head_items: int, recent_items: int) -> None:
    """Raise ValueError unless a head of so many items and lists of so many are possible."""
    if not 0 <= head_items <= MOST_ITEMS:
        raise ValueError(f"head_items {head_items}: from 0, which counts no pairs, to {MOST_ITEMS}")
    if not BLOCK <= recent_items <= MOST_RECENT or recent_items % BLOCK:
        raise ValueError(
            f"recent_items {recent_items}: a multiple of {BLOCK}, {BLOCK} to {MOST_RECENT}"
        )
