"""The recent items of each device with its visits: which of them one day brought, and the likes.

`kernels/cooccurrence/visits.py` says what a visit is. A device takes 36 bytes more than its list:
336 bytes at 128 entries.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.cooccurrence.device_lists import BLOCK, ENTRIES, WEIGHT_BITS, WEIGHT_MASK
from stream_app.kernels.cooccurrence.visits import (
    BEFORE,
    CHANNEL,
    FIELDS,
    PRESENT,
    SINGLES,
    SINGLES_BEFORE,
    STEP,
    gather_visits,
    rank_visits,
)
from stream_app.kernels.instrumentation import timed
from stream_app.kernels.machine.dirty_pages import touch_words
from stream_app.models.cooccurrence.recent_items import RecentItems
from stream_app.models.paged_arrays import Arrays
from stream_app.ranking.visit_events import VisitSample

_ROW_BYTES = 4 * FIELDS


class DeviceItems(NamedTuple):
    """What is known of one device, oldest first, (m,) each.

    items: slots, rows or keys. weights: 1 for a certain like. visits_ago: 0 for the present visit,
    1 for the one before, 2 for any older one. ages: 0, 1, 2 .. for the ratings that came one by one
    last, 0 for the newest; then one age for the rest of the visit, and one for all older ones. The
    order of items of one age has no meaning.
    """

    items: NDArray[Any]
    weights: NDArray[np.float32]
    visits_ago: NDArray[np.int64]
    ages: NDArray[np.float32]

    @classmethod
    def none(cls, kind: type[np.integer]) -> DeviceItems:
        """Return what is known of a device without items; `kind` is the type of an item."""
        part, visits = np.empty(0, np.float32), np.empty(0, np.int64)
        return cls(np.empty(0, kind), part, visits, part)


class VisitLists(RecentItems):
    """Lists as of `RecentItems`, and by the device's row visits (D, 7) int32 and likes (D,) uint64.

    channels: how many there are.
    """

    growing: ClassVar[frozenset[str]] = RecentItems.growing | {"visits", "likes"}

    def __init__(self, most: int, channels: int) -> None:
        super().__init__(most)
        self.channels = channels
        self.keep_growing("visits", np.int32, FIELDS)
        self.keep_growing("likes", np.uint64)

    def extend_to(self, devices: int) -> None:
        """Make room for the lists of so many devices."""
        for name in ("ends", "visits", "likes"):
            self.extend(name, devices)

    def clear(self, row: int) -> None:
        """Empty a device's list and forget its visits."""
        super().clear(row)
        if 0 <= row < self.length("visits"):
            self._forget(np.array([row]))

    def release(self, rows: NDArray[np.int64]) -> None:
        """Clear the lists of devices (n,), free their blocks and forget their visits."""
        super().release(rows)
        self._forget(rows)

    def _forget(self, rows: NDArray[np.int64]) -> None:
        touch_words(self.pages("likes"), rows)
        words = (_ROW_BYTES * rows[:, None] + np.arange(0, _ROW_BYTES, 4)) // 8
        touch_words(self.pages("visits"), np.unique(words))
        self.room("likes")[rows] = 0
        self.room("visits")[rows] = 0

    def history(self, row: int, one: int) -> DeviceItems:
        """Return the entries of a device, items as slots; `one` is the largest weight."""
        entries = self._entries(row)
        live = np.flatnonzero(entries)
        if not len(live):
            return DeviceItems.none(np.int64)
        places, visit = len(entries) - 1 - live, self.room("visits")[row]
        present, before, singles = (int(visit[n]) for n in (PRESENT, BEFORE, SINGLES))
        visits_ago = (places >= present) * 1 + (places >= present + before)
        alone = int((places < singles).sum())
        ages = np.where(places < present, alone, alone + 1)
        if alone:
            ages[-alone:] = np.arange(alone)[::-1]
        slots, weights = entries[live] >> WEIGHT_BITS, entries[live] & WEIGHT_MASK
        share = (weights / one).astype(np.float32)
        return DeviceItems(slots, share, visits_ago, ages.astype(np.float32))

    def sample(
        self, most: int, step: int, one: int, rates: NDArray[np.float64], *, singles: bool
    ) -> VisitSample:
        """Return the lists of the `most` devices whose present visits are the newest, at a decay
        step: of those with an entry of it and an older one, or, if `singles`, with two that came
        one by one, and in either case with reports of one channel. rates (C, 2): `like_rates`."""
        devices = self.length("ends")
        keys, rows = np.empty(devices, np.uint64), np.empty(devices, np.int64)
        ends, visits = self.room("ends"), self.room("visits")
        found = timed(rank_visits, ends, visits, devices, singles, keys, rows)
        keys, rows = keys[:found], rows[:found]
        if found > most:
            newest = np.argpartition(keys, found - most)[found - most :]
            keys, rows = keys[newest], rows[newest]
        rows = rows[np.argsort(keys)[::-1]]
        entries = int(ends[rows, ENTRIES].sum())
        starts, counts = np.empty(len(rows) + 1, np.int64), np.empty((len(rows), 4), np.int64)
        slots, (weights, likes) = np.empty(entries, np.int64), np.empty((2, entries), np.uint8)
        kept = timed(
            gather_visits, ends, self.room("blocks"), self.room("links"), visits,
            self.room("likes"), singles, rows, np.empty(BLOCK * self.most, np.uint16), starts,
            slots, weights, likes, counts,
        )  # fmt: skip
        starts, chosen = starts[: kept + 1], visits[rows[:kept]].astype(np.int64)
        used = slice(int(starts[-1]))
        share: NDArray[np.float32] = (weights[used] / one).astype(np.float32)
        present, before, alone, earlier = counts[:kept].T
        positive, false = rates[chosen[:, CHANNEL]].T
        return VisitSample(
            starts, slots[used], share, likes[used], present, before, alone, earlier,
            step - chosen[:, STEP], positive, false,
        )  # fmt: skip

    def check(self, arrays: Arrays) -> None:
        """Raise ValueError where a list is none, or a visit is longer than its list."""
        super().check(arrays)
        ends, visits = arrays["ends"], arrays["visits"]
        if not len(ends) == len(visits) == len(arrays["likes"]):
            raise ValueError(
                f"lists of {len(ends)} devices, visits of {len(visits)}, likes of "
                f"{len(arrays['likes'])}: use one of each for a device"
            )
        present, before, singles = (visits[:, n] for n in (PRESENT, BEFORE, SINGLES))
        negative = any((visits[:, n] < 0).any() for n in range(FIELDS) if n != CHANNEL)
        both = present.astype(np.int64) + before  # of a forged state beyond 2^31
        longer = (both > ends[:, ENTRIES]).any() or (singles > present).any()
        longer |= (visits[:, SINGLES_BEFORE] > before).any()
        channel = visits[:, CHANNEL]
        if negative or longer or ((channel < -1) | (channel >= self.channels)).any():
            raise ValueError(
                f"visits of {len(ends)} devices: one is longer than its list, or of none of "
                f"{self.channels} channels"
            )
