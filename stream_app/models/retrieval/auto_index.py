"""An index that is exact while the catalogue is small and qoLSH once it is large."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.models.retrieval.exact_index import ExactIndex
from stream_app.models.retrieval.index import Index, RowFilter, Rows
from stream_app.models.retrieval.qolsh_index import QoLSHIndex

EXACT_BELOW = 30_000


class AutoIndex:
    """An exact index that becomes a qoLSH index once, when it reaches `exact_below` items."""

    def __init__(
        self, factors: int, code_bits: int = 256, seed: int = 1, exact_below: int = EXACT_BELOW
    ) -> None:
        self._small: ExactIndex | None = ExactIndex(factors, seed)
        self._index: Index = self._small
        self._large = QoLSHIndex(factors, code_bits, seed=seed)
        self._exact_below = exact_below

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
        """Set or append rows; the update that reaches the limit encodes every item, 3 us each."""
        self._index.update(rows, vectors, biases)
        if self._small is not None and self.size >= self._exact_below:
            self._large.update(np.arange(self.size), *self._small.contents())
            self._index, self._small = self._large, None

    def search(
        self, vector: NDArray[np.float32], count: int, keep: RowFilter
    ) -> tuple[Rows, NDArray[np.float32]]:
        """Return the best rows that `keep` lets through and their scores."""
        return self._index.search(vector, count, keep)
