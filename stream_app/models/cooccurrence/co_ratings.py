"""What devices have rated together: co-raters, differences and products of each two head items.

`kernels/cooccurrence/co_rating_sums.py` has the equations, `report_values.py` the value of a
report. A device has a list of its newest ratings of the head with their values. The tables are
exactly the sums over the present lists: a forgotten or evicted device leaves the tables as if it
had never rated, and so does the former item of a slot that changes hands.

    16 bytes for each two items of the head: 32 MiB at 2,048 items, 128 MiB at 4,096
    12 bytes a device and 68 for each 16 entries of its list: 560 at 128 entries

A rating of an item that the list holds replaces the value and keeps the place: the newest report
counts. A list holds at least the newest `recent` - 15 ratings, since 16 leave it at a time. The
first 8,388,607 devices have a list, so that no sum can pass its bounds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.cooccurrence.co_rating_sums import (
    COUNTS,
    MOST_DEVICES,
    RATERS,
    ROW_BITS,
    clear_slots,
    co_raters_of,
    count_co_ratings,
    take_out_lists,
)
from stream_app.kernels.cooccurrence.device_lists import BLOCK
from stream_app.kernels.instrumentation import timed
from stream_app.models.cooccurrence.item_pairs import RecordColumns
from stream_app.models.cooccurrence.recent_items import RecentItems
from stream_app.models.cooccurrence.report_values import ReportValues
from stream_app.models.cooccurrence.snapshots import CoRatingSnapshot
from stream_app.models.factorization.channels import Channels
from stream_app.models.paged_arrays import Arrays, FixedArrays, StatePart, mark_dirty


class CoRatingLists(RecentItems):
    """Lists of at most `most` blocks of 16 (slot, row of the report + 1), for a head of `size`
    items and `rows` different reports."""

    def __init__(self, most: int, size: int, rows: int) -> None:
        super().__init__(most, np.uint32, ROW_BITS)
        self.size, self.rows = size, rows

    def check(self, arrays: Arrays) -> None:
        """Raise ValueError where a list is none, or an entry names no slot or no report."""
        super().check(arrays)
        entries = arrays["blocks"][arrays["blocks"] > 0]
        rows = entries & np.uint32((1 << ROW_BITS) - 1)
        if (entries >> ROW_BITS >= self.size).any() or ((rows < 1) | (rows > self.rows)).any():
            raise ValueError(
                f"entries of lists: there are {self.size} slots and {self.rows} different "
                "reports, and an entry names another"
            )


class CoRatingSums(FixedArrays):
    """cells (size (size - 1) / 2, 2), moments (size, 4), int64."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.cells = self.keep("cells", np.zeros((size * (size - 1) // 2, 2), np.int64))
        self.moments = self.keep("moments", np.zeros((size, 4), np.int64))


class CoRatings:
    """Co-ratings of a head of `size` items in lists of at most `recent` items, of the devices in
    the first `most_devices` rows."""

    def __init__(
        self, channels: Channels, size: int, recent: int, most_devices: int = MOST_DEVICES
    ) -> None:
        if not 0 <= most_devices <= MOST_DEVICES:
            raise ValueError(f"most_devices {most_devices}: at most {MOST_DEVICES}")
        self._values = ReportValues.from_channels(channels)
        most = -(-recent // BLOCK)
        self.lists = CoRatingLists(most, size, len(self._values.fixed))
        self._sums = CoRatingSums(size)
        self._starts, self._alphabets = channels.starts, channels.alphabets
        self.most_devices = most_devices
        self._window = np.empty((4, BLOCK * most), np.int64)

    def take(self, old: CoRatings) -> None:
        """Continue co-ratings with as many slots and entries or fewer, whose reports are the first
        of these and have the same values; `old` must not be used again."""
        lists, fresh = old.lists, self.lists
        lists.most, lists.size, lists.rows = fresh.most, fresh.size, fresh.rows
        self.lists = lists
        if len(self._sums.moments) == len(old._sums.moments):
            self._sums = old._sums
            return
        pages, held = self._sums.dirty_pages(), old._sums.arrays()
        for name, own in self._sums.arrays().items():
            mark_dirty(pages[name], 0, held[name].nbytes)
            own[: len(held[name])] = held[name]

    def parts(self) -> dict[str, StatePart]:
        """Return the parts of the state by name."""
        return {"lists": self.lists, "sums": self._sums}

    def extend(self, devices: int) -> None:
        """Make the state that of so many known devices."""
        self.lists.extend("ends", devices)

    def count(self, columns: RecordColumns, slots: NDArray[np.int16]) -> None:
        """Count records of known devices, in order; slots: of the items by row, -1 without one."""
        lists, sums = self.lists, self._sums
        most = lists.length("blocks") + len(columns.rows) // BLOCK + 2 * len(columns.devices)
        lists.reserve("blocks", most)
        lists.reserve("links", most)
        self._mark_moments()
        blocks = timed(
            count_co_ratings, slots, *map(lists.room, _ARRAYS), lists.length("blocks"), lists.most,
            self.most_devices, sums.cells, sums.moments, self._values.fixed,
            *map(lists.pages, _ARRAYS), sums.dirty_pages()["cells"], self._window,
            columns.devices, columns.sizes, columns.rows, columns.channels, columns.reports,
            columns.skipped, self._starts, self._alphabets,
        )  # fmt: skip
        lists.extend("blocks", blocks)
        lists.extend("links", blocks)

    def clear_slots(self, slots: NDArray[np.int64]) -> None:
        """Clear all that is known of slots (m,), which have another item now."""
        gone = np.zeros(len(self._sums.moments), np.bool_)
        gone[slots] = True
        self._mark_moments()
        clear_slots(self._sums.cells, self._sums.dirty_pages()["cells"], gone)
        self._sums.moments[slots] = 0
        self.lists.remove(slots)

    def clear(self, device: int) -> None:
        """Take the list of a device out of the sums and empty it."""
        if 0 <= device < self.lists.length("ends"):
            self._take_out(np.array([device], np.int64))
            self.lists.clear(device)

    def release(self, devices: NDArray[np.int64]) -> None:
        """Take the lists of devices (n,) out of the sums; other devices take their rows."""
        self.lists.extend("ends", int(devices.max()) + 1)  # a forged state may have fewer
        self._take_out(devices)
        self.lists.release(devices)

    def history(self, device: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the slots that a device has rated, oldest first, and the values of its reports in
        stars; both empty for an unknown device."""
        slots, rows = self.lists.of_device(device)
        return slots, (self._values.fixed[rows - 1, 0] * self._values.unit).astype(np.float32)

    def co_raters(
        self, slots: NDArray[np.int64], used: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (m, used): how many devices have rated each of `slots` (m,) and each slot in use,
        0 for a slot and itself; and (used,): how many have rated each. A few milliseconds for a
        hundred slots."""
        starts = np.arange(used) * np.arange(-1, used - 1) // 2  # of the cells of each slot
        words, counts = self._sums.cells[:, COUNTS], np.zeros((len(slots), used), np.int64)
        for row, slot in zip(counts, slots.tolist(), strict=True):
            row[:slot] = words[starts[slot] : starts[slot] + slot]
            row[slot + 1 :] = words[starts[slot + 1 :] + slot]
        return co_raters_of(counts), self._sums.moments[:used, RATERS].copy()

    @property
    def whole(self) -> bool:
        """Whether every device can have a list, whatever other devices there are."""
        return self.lists.length("ends") <= self.most_devices

    def snapshot(self, keys: NDArray[np.uint64], cut: int) -> CoRatingSnapshot:
        """Return a copy of the sums of the slots in use, which have the items `keys` (n,)."""
        size = len(keys)
        cells = self._sums.cells[: size * (size - 1) // 2]
        return CoRatingSnapshot(
            keys, cells.copy(), self._sums.moments[:size].copy(), self._values.unit, cut
        )

    @property
    def memory_bytes(self) -> int:
        """Size of the state."""
        return self.lists.memory_bytes + self._sums.memory_bytes

    def _take_out(self, devices: NDArray[np.int64]) -> None:
        self._mark_moments()
        take_out_lists(
            *map(self.lists.room, _ARRAYS[:3]), self._sums.cells, self._sums.moments,
            self._values.fixed, self._sums.dirty_pages()["cells"], self._window, devices,
        )  # fmt: skip

    def _mark_moments(self) -> None:
        mark_dirty(self._sums.dirty_pages()["moments"], 0, self._sums.moments.nbytes)


_ARRAYS = ("ends", "blocks", "links", "free")


def check_co_ratings(head_items: int, *, public: bool) -> None:
    """Raise ValueError unless co-ratings have a head and reports of which presence is public."""
    if not head_items:
        raise ValueError(
            "co_ratings with head_items 0: they are counted between items of the head; give it 1 "
            "to 4096 items, or leave co_ratings off"
        )
    if not public:
        raise ValueError(
            "co_ratings: each mechanism of the allow-list hides which items are rated, so no two "
            "are known to be rated together; allow one that does not, e.g. rr:5:2, or leave "
            "co_ratings off"
        )
