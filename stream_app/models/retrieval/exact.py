"""The exact index: every score, then the best. The reference, and faster for small catalogues."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels import scan
from stream_app.models.retrieval.index import (
    Keep,
    Rows,
    checked_update,
    checked_vector,
    grown,
    nothing,
    walk,
)
from stream_app.models.retrieval.ranking import Ranker


class ExactIndex:
    """Item vectors component by component, scanned as a whole for every search."""

    method = "exact"

    def __init__(self, factors: int, seed: int = 1) -> None:
        if not 1 <= factors <= 4096:
            raise ValueError(f"factors {factors}: use 1 to 4096")
        self.factors = factors
        self.size = 0
        self._ranker = Ranker(seed)
        self._columns = np.zeros((factors, 0), np.float32)
        self._biases = np.zeros(0, np.float32)
        self._scores = np.zeros(0, np.float32)

    def update(self, rows: Rows, vectors: NDArray[np.float32], biases: NDArray[np.float32]) -> None:
        """Set or append rows."""
        size = checked_update(self.size, self.factors, rows, vectors, biases)
        self._columns = grown(self._columns, 1, size)
        self._biases = grown(self._biases, 0, size)
        self._scores = grown(self._scores, 0, size)
        self._columns[:, rows] = vectors.T
        self._biases[rows] = biases
        self.size = size

    def search(
        self, vector: NDArray[np.float32], count: int, keep: Keep
    ) -> tuple[Rows, NDArray[np.float32]]:
        """Return the best rows that `keep` lets through and their scores."""
        p = checked_vector(self.factors, vector)
        if count <= 0 or self.size == 0:
            return nothing()
        scores = self._scores[: self.size]
        scan.scores(self._columns, self._biases, p, scores)
        kept = np.empty(0, np.int64)
        start, fetch = 0, 2 * count + 64
        while True:
            # A longer ranking begins with the shorter one, so what was asked stays asked.
            ranking = self._ranker.ranking(scores, fetch)
            more, start = walk(ranking, start, count - len(kept), keep)
            kept = np.concatenate((kept, more))
            if len(kept) == count or len(ranking) == self.size:
                rows = ranking[kept]
                return rows, scores[rows]
            fetch *= 4

    def contents(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return copies of the vectors (size, factors) and the biases (size,)."""
        vectors = np.ascontiguousarray(self._columns[:, : self.size].T)
        return vectors, self._biases[: self.size].copy()

    @property
    def memory_bytes(self) -> int:
        """Bytes held, scratch included."""
        held = self._columns.nbytes + self._biases.nbytes + self._scores.nbytes
        return held + self._ranker.memory_bytes
