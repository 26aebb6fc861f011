"""The exact index: every score, then the best. The reference, and faster for small catalogues."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.retrieval import exact_scan as scan
from stream_app.models.retrieval.index import (
    RowFilter,
    Rows,
    SearchResult,
    StoredIndex,
    grown,
    walk_ranking,
)


class ExactIndex(StoredIndex):
    """Item vectors component by component, scanned as a whole for every search."""

    method = "exact"

    def __init__(self, factors: int, seed: int = 1) -> None:
        if not 1 <= factors <= 4096:
            raise ValueError(f"factors {factors}: use 1 to 4096")
        super().__init__(factors, seed)
        self._columns = np.zeros((factors, 0), np.float32)

    def _store(self, rows: Rows, vectors: NDArray[np.float32], size: int) -> None:
        self._columns = grown(self._columns, 1, size)
        self._columns[:, rows] = vectors.T

    def _found(self, p: NDArray[np.float32], count: int, keep: RowFilter) -> SearchResult:
        scores = self._scores[: self.size]
        scan.scores(self._columns, self._biases, p, scores)
        kept = np.empty(0, np.int64)
        start, fetch = 0, 2 * count + 64
        while True:
            # A longer ranking begins with the shorter one: answers of `keep` stay valid.
            ranking = self._ranker.ranking(scores, fetch)
            more, start = walk_ranking(ranking, start, count - len(kept), keep)
            kept = np.concatenate((kept, more))
            if len(kept) == count or len(ranking) == self.size:
                rows = ranking[kept]
                return rows, scores[rows]
            fetch *= 4

    def contents(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return copies of the vectors (size, factors) and the biases (size,)."""
        vectors = np.ascontiguousarray(self._columns[:, : self.size].T)
        return vectors, self._biases[: self.size].copy()
