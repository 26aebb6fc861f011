"""Map from keys to row numbers in order of first appearance, for tables that grow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.stream.hash_index import add_all, rehash, rows_of
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
