"""Base class of the indexes: biases, room for scores, and the checks of every call.

The order of answers: higher score first, ties by a keyed hash of the row, not by age.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.retrieval import top_k as selection
from stream_app.models.retrieval.index import RowFilter, Rows, checked_update, checked_vector, grown
from stream_app.models.retrieval.service_level import ServiceLevel

SearchResult = tuple[Rows, NDArray[np.float32]]
_NO_NAMES = np.empty(0, np.int64)


class Ranker:
    """The kernel `top_k` with its scratch memory, which one search at a time may use."""

    def __init__(self, seed: int) -> None:
        self._salt = np.uint64(seed & (2**64 - 1))
        self._places = np.empty(0, np.int64)
        self._keys = np.empty(0, np.uint64)
        self._reached = np.empty(0, np.uint8)

    def best(self, scores: NDArray[np.float32], count: int, names: Rows = _NO_NAMES) -> Rows:
        """Return the places of the `count` best scores, unordered; `names` are the places' rows."""
        return self._select(scores, count, names)[0].copy()

    def ranking(self, scores: NDArray[np.float32], count: int, names: Rows = _NO_NAMES) -> Rows:
        """Return the places of the `count` best scores, best first."""
        places, keys = self._select(scores, count, names)
        return places[np.argsort(keys)[::-1]]

    def _select(
        self, scores: NDArray[np.float32], count: int, names: Rows
    ) -> tuple[Rows, NDArray[np.uint64]]:
        if len(self._places) < len(scores) + 8:
            room = len(scores) + len(scores) // 2 + 8
            self._places = np.empty(room, np.int64)
            self._keys = np.empty(room, np.uint64)
            self._reached = np.empty(room, np.uint8)
        n = selection.top_k(
            scores,
            scores.view(np.int32),
            names,
            count,
            self._salt,
            self._places,
            self._keys,
            self._reached,
        )
        return self._places[:n], self._keys[:n]

    @property
    def memory_bytes(self) -> int:
        """Size of the scratch."""
        return self._places.nbytes + self._keys.nbytes + self._reached.nbytes


class StoredIndex(ABC):
    """An index without its vectors: a subclass stores them in its own layout and finds the best."""

    def __init__(self, factors: int, seed: int) -> None:
        self.factors = factors
        self.size = 0
        self.level = ServiceLevel()
        self._ranker = Ranker(seed)
        self._biases = np.zeros(0, np.float32)
        self._scores = np.zeros(0, np.float32)

    def update(self, rows: Rows, vectors: NDArray[np.float32], biases: NDArray[np.float32]) -> None:
        """Set or append rows."""
        size = checked_update(self.size, self.factors, rows, vectors, biases)
        self._biases = grown(self._biases, 0, size)
        self._scores = grown(self._scores, 0, size)
        self._store(rows, vectors, size)
        self._biases[rows] = biases
        self.size = size

    def search(self, vector: NDArray[np.float32], count: int, keep: RowFilter) -> SearchResult:
        """Return the best rows found that `keep` lets through and their scores."""
        p = checked_vector(self.factors, vector)
        if count <= 0 or self.size == 0:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        return self._found(p, count, keep)

    @property
    def memory_bytes(self) -> int:
        """Bytes held, scratch included."""
        arrays = (value for value in vars(self).values() if isinstance(value, np.ndarray))
        return sum(array.nbytes for array in arrays) + self._ranker.memory_bytes

    @abstractmethod
    def _store(self, rows: Rows, vectors: NDArray[np.float32], size: int) -> None:
        """Set the vectors of rows, with room for `size` of them."""

    @abstractmethod
    def _found(self, p: NDArray[np.float32], count: int, keep: RowFilter) -> SearchResult:
        """Return the best of at least one item for a checked query and a count above zero."""
