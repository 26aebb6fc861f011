"""An index that is exact while that is faster, and scans bytes along principal axes afterwards.

Which is faster depends on the machine and on the items: whenever the catalogue has doubled, from
1,024 items on, both indexes hold the items, and a comparison, which a caller with a clock gives
(`faster_index.py`), looks at both. The approximate one that it prefers stays until the service
level has lengthened its shortlist; then both are compared again. Without a comparison it is
preferred from 8,192 items on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stream_app.models.retrieval.exact_index import ExactIndex
from stream_app.models.retrieval.index import Index, RowFilter, Rows
from stream_app.models.retrieval.pca_index import PCAIndex
from stream_app.models.retrieval.service_level import ServiceLevel

FIRST_LOOK = 1024
_QUERIES = 8
_USUALLY_FASTER = 8192
Comparison = Callable[[Index, Index, NDArray[np.float32]], bool]


class AutoIndex:
    """An exact index that becomes a PCA index where that is faster; `is_faster` compares the PCA
    index (second) with the exact index (first) on some queries (n, factors)."""

    def __init__(self, factors: int, seed: int = 1, is_faster: Comparison | None = None) -> None:
        self._index: ExactIndex | PCAIndex = ExactIndex(factors, seed)
        self._factors, self._seed = factors, seed
        self.is_faster = is_faster or _usually_faster
        self._look_at, self._looked_factor = FIRST_LOOK, 1
        self._level = ServiceLevel()

    @property
    def level(self) -> ServiceLevel:
        """The service level, which may be replaced."""
        return self._level

    @level.setter
    def level(self, level: ServiceLevel) -> None:
        self._level = self._index.level = level

    @property
    def method(self) -> str:
        """The method in use now."""
        return self._index.method

    @property
    def size(self) -> int:
        """Number of items."""
        return self._index.size

    @property
    def memory_bytes(self) -> int:
        """Bytes held by the index in use."""
        return self._index.memory_bytes

    def update(self, rows: Rows, vectors: NDArray[np.float32], biases: NDArray[np.float32]) -> None:
        """Set or append rows; an update that doubles the catalogue, or comes after a longer
        shortlist, compares the methods, 1 us an item."""
        self._index.update(rows, vectors, biases)
        if self._level.exact:
            return
        if isinstance(self._index, PCAIndex):
            due = self._level.factor > self._looked_factor
        else:
            due = self.size >= self._look_at
        if due:
            self._look_at, self._looked_factor = 2 * self.size, self._level.factor
            self._choose()

    def _choose(self) -> None:
        items, biases = self._index.contents()
        exact, pca = (
            self._index if isinstance(self._index, kind) else self._filled(kind, items, biases)
            for kind in (ExactIndex, PCAIndex)
        )
        queries = items[:: max(1, self.size // _QUERIES)][:_QUERIES]
        self._index = pca if self.is_faster(exact, pca, queries) else exact

    def _filled(
        self,
        kind: type[ExactIndex | PCAIndex],
        items: NDArray[np.float32],
        biases: NDArray[np.float32],
    ) -> ExactIndex | PCAIndex:
        index = kind(self._factors, seed=self._seed)
        index.level = self._level
        index.update(np.arange(len(items)), items, biases)
        return index

    def search(
        self, vector: NDArray[np.float32], count: int, keep: RowFilter
    ) -> tuple[Rows, NDArray[np.float32]]:
        """Return the best rows that `keep` lets through and their scores."""
        return self._index.search(vector, count, keep)


def _usually_faster(first: Index, *_: object) -> bool:
    return first.size >= _USUALLY_FASTER
