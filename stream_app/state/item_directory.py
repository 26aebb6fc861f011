"""Map from keys to row numbers in order of first appearance, for tables that grow."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.stream.hash_index import add_all, rehash, rows_of
from stream_app.models.paged_arrays import (
    Arrays,
    DirtyMap,
    check_arrays,
    check_rows,
    dirty_map,
    grown_map,
    leading_pages,
    mark_dirty,
)
from stream_app.models.seeds import secret_seed


class ItemDirectory:
    """A map from uint64 keys to rows 0, 1, 2, ... by first appearance; nothing is removed."""

    growing = frozenset({"keys"})

    def __init__(self, room: int = 1024) -> None:
        if room < 1:
            raise ValueError(f"room {room}: must be at least 1")
        self._seed = secret_seed()
        self._count = 0
        self._keys: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._pages = dirty_map(self._keys)
        self._slots: NDArray[np.int64] = np.empty(0, np.int64)
        self.reserve(room)

    def __len__(self) -> int:
        return self._count

    @property
    def keys(self) -> NDArray[np.uint64]:
        """The keys in row order."""
        return self._keys[: self._count]

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the state itself, not a copy."""
        return {"keys": self.keys}

    def dirty_pages(self) -> dict[str, DirtyMap]:
        """Return the dirty-page map of each array."""
        return {"keys": leading_pages(self._pages, self.keys)}

    def load(self, arrays: Arrays) -> None:
        """Replace the state by what `arrays()` returned; ValueError where they do not fit."""
        check_arrays(arrays, self.arrays(), self.growing)
        new = ItemDirectory(max(1, len(arrays["keys"])))
        new.rows(arrays["keys"], add=True)
        if len(new) != len(arrays["keys"]):
            raise ValueError(f"{len(arrays['keys'])} keys: one of them occurs twice")
        self._count, self._keys, self._slots = new._count, new._keys, new._slots
        self._seed = new._seed
        self._pages = new._pages
        self._pages[:] = 1

    def resize(self, rows: Mapping[str, int]) -> None:
        """Give the keys so many rows; see `StatePart`."""
        check_rows(rows, self.growing)
        count, old = rows["keys"], self.keys
        room = max(16, 1 << max(count - 1, 0).bit_length())
        self._keys = np.zeros(room, np.uint64)
        self._keys[: min(count, len(old))] = old[:count]
        self._count, self._pages = count, dirty_map(self._keys)
        self._slots = np.full(2 * room, -1, np.int64)

    def index(self) -> None:
        """Place the keys again, and mark every page; see `StatePart`."""
        self._slots[:] = -1
        rehash(self._slots, self._keys, self._seed, self._count)
        if int((self._slots >= 0).sum()) != self._count:
            raise ValueError(f"{self._count} keys: one of them occurs twice")
        self._pages[:] = 1

    @property
    def memory_bytes(self) -> int:
        """Memory held."""
        return int(self._keys.nbytes + self._slots.nbytes)

    def reserve(self, room: int) -> None:
        """Make sure that `room` rows fit; the table doubles, so adding single keys stays cheap."""
        if room <= len(self._keys):
            return
        room = max(16, 1 << (room - 1).bit_length())
        keys = np.empty(room, np.uint64)
        keys[: self._count] = self.keys
        self._keys, self._pages = keys, grown_map(self._pages, keys)
        self._slots = np.full(2 * room, -1, np.int64)
        rehash(self._slots, self._keys, self._seed, self._count)

    def rows(self, keys: NDArray[np.uint64], *, add: bool = False) -> NDArray[np.int64]:
        """Return the row of each key; an unknown one is added if `add`, else its row is -1."""
        keys = np.ascontiguousarray(keys, np.uint64)
        rows = np.empty(len(keys), np.int64)
        if add:
            self.reserve(self._count + len(keys))
            before = self._count
            self._count = add_all(self._slots, self._keys, self._seed, before, keys, rows)
            mark_dirty(self._pages, 8 * before, 8 * self._count)
        else:
            rows_of(self._slots, self._keys, self._seed, keys, rows)
        return rows
