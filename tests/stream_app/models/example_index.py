"""Every score, one row after the other, then all of them in order: the smallest index."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.retrieval import exact_scan
from stream_app.models.retrieval.auto_index import IndexSpec
from stream_app.models.retrieval.index import (
    RowFilter,
    Rows,
    SearchResult,
    StoredIndex,
    grown,
    walk_ranking,
)


class SortedIndex(StoredIndex):
    method = "sorted"

    def __init__(self, spec: IndexSpec) -> None:
        super().__init__(spec.factors, spec.seed)
        self._vectors = np.zeros((0, spec.factors), np.float32)

    def _store(self, rows: Rows, vectors: NDArray[np.float32], size: int) -> None:
        self._vectors = grown(self._vectors, 0, size)
        self._vectors[rows] = vectors

    def _found(self, p: NDArray[np.float32], count: int, keep: RowFilter) -> SearchResult:
        scores = self._scores[: self.size]
        exact_scan.chosen(self._vectors, self._biases, np.arange(self.size), p, scores)
        ranking = self._ranker.ranking(scores, self.size)
        kept, _ = walk_ranking(ranking, 0, count, keep)
        return ranking[kept], scores[ranking[kept]]
