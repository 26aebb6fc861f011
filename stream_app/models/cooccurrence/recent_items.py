"""The recent items of each device, which are what the server knows of its history.

`kernels/cooccurrence/device_lists.py` has the layout. A device takes 12 bytes, and 36 bytes for
every 16 entries that it has had at a time: 300 bytes at 128 entries. The blocks of devices that are
evicted are those of the next lists that grow.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.cooccurrence.device_lists import (
    BLOCK,
    ENTRIES,
    LAST,
    RING,
    WEIGHT_BITS,
    WEIGHT_MASK,
    release,
)
from stream_app.models.growing_arrays import GrowingArrays
from stream_app.models.paged_arrays import Arrays, mark_dirty

_SCANNED = 1 << 16  # blocks at a time
_BLOCK_BYTES = 2 * BLOCK


class RecentItems(GrowingArrays):
    """Lists of at most `most` blocks of 16 (slot, weight), by the device's row.

    ends (D, 3) int32, blocks (B, 16) uint16, links (B,) int32, free (2,) int32.
    """

    growing: ClassVar[frozenset[str]] = frozenset({"ends", "blocks", "links"})

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self.keep_growing("ends", np.int32, 3)
        self.keep_growing("blocks", np.uint16, BLOCK)
        self.keep_growing("links", np.int32)
        self.keep("free", np.zeros(2, np.int32))

    def extend_to(self, devices: int) -> None:
        """Make room for the lists of so many devices."""
        self.extend("ends", devices)

    def of_device(self, row: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the slots of a device's entries, oldest first, and the weights; empty without a
        list."""
        entries = self._entries(row)
        entries = entries[entries > 0]
        return entries >> WEIGHT_BITS, entries & WEIGHT_MASK

    def _entries(self, row: int) -> NDArray[np.int64]:
        """Return a device's entries, oldest first, 0 for those of slots that were removed."""
        ring = self._ring(row)
        live = -(-int(self.room("ends")[row, ENTRIES]) // BLOCK) if ring else 0
        if not live:
            return np.empty(0, np.int64)
        entries = self.room("blocks")[ring[-live:]].reshape(-1).astype(np.int64)
        return entries[: int(self.room("ends")[row, ENTRIES])]

    def _ring(self, row: int) -> list[int]:
        """Return the blocks of a device, the last one last."""
        if not 0 <= row < self.length("ends"):
            return []
        block, _, size = self.room("ends")[row].tolist()
        ring, links = [], self.room("links")
        for _ in range(size):
            block = int(links[block])
            ring.append(block)
        return ring

    def clear(self, row: int) -> None:
        """Empty a device's list; its blocks stay with it."""
        ring = self._ring(row)
        if not ring:
            return
        size = _BLOCK_BYTES
        for block in ring:
            mark_dirty(self.pages("blocks"), size * block, size * (block + 1))
        mark_dirty(self.pages("ends"), 12 * row, 12 * (row + 1))
        self.room("blocks")[ring] = 0
        self.room("ends")[row, ENTRIES] = 0

    def release(self, rows: NDArray[np.int64]) -> None:
        """Clear the lists of devices (n,) and free their blocks."""
        names = "ends", "blocks", "links", "free"
        release(*map(self.room, names), *map(self.pages, names), rows)

    def remove(self, slots: NDArray[np.int64]) -> None:
        """Remove the entries of slots from all lists, in one scan; other entries keep their
        place."""
        gone = np.zeros(1 << (16 - WEIGHT_BITS), np.bool_)
        gone[slots] = True
        size = _BLOCK_BYTES
        for start in range(0, self.length("blocks"), _SCANNED):
            stop = min(start + _SCANNED, self.length("blocks"))
            entries = self.room("blocks")[start:stop]
            found = gone[entries >> WEIGHT_BITS] & (entries > 0)
            if found.any():
                mark_dirty(self.pages("blocks"), size * start, size * stop)
                entries[found] = 0

    def check(self, arrays: Arrays) -> None:
        """Raise ValueError where a list leaves the blocks or is longer than its own."""
        ends, links = arrays["ends"], arrays["links"]
        used, count = ends[ends[:, RING] != 0], len(links)
        outside = len(used) and not ((used >= 0).all() and (used[:, LAST] < count).all())
        if len(arrays["blocks"]) != count or outside or ((links < 0) | (links >= count)).any():
            raise ValueError(
                f"lists of {len(ends)} devices in {count} blocks: a link leads nowhere"
            )
        entries = used[:, ENTRIES]
        if len(used) and ((used[:, RING] > self.most) | (entries > BLOCK * used[:, RING])).any():
            raise ValueError(
                f"lists of {len(ends)} devices: a list is longer than its blocks, of which it has "
                f"at most {self.most}"
            )
        first, many = arrays["free"].tolist()
        if first not in range(max(count, 1)) or not 0 <= many <= count - int(used[:, RING].sum()):
            raise ValueError(f"{many} free blocks from {first} on: there are {count} blocks")
