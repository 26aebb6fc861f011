"""The PCA index: a scan of a byte a component along the principal axes, then exact scores.

    1  every item      bias and 8 components along the leading axes of the items, 9 bytes an item
    2  some of them    8 further components
    3  the shortlist   b + q . p, exact, from the stored vectors

The axes are the eigenvectors of the items' second moments. They and the units of the bytes are
found again when the catalogue has doubled since, when every item has been set four times on
average, or when one number in a hundred no longer fits its byte. Steps 1 and 2 may lose an item;
the returned rows are scored and ordered exactly.

A search most of whose candidates `keep` refuses is repeated with four times the shortlist.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.algebra.symmetric_eigen import symmetric_eigen
from stream_app.kernels.retrieval import pca_scan as scan
from stream_app.models.retrieval.base import SearchResult, StoredIndex
from stream_app.models.retrieval.index import RowFilter, Rows, grown, walk_ranking

SHORTLIST = 400
_AXES = scan.COARSE + scan.FINE
_ROOM = 1.25  # units reach so far beyond the largest number
_A_COUNT = 3
_OUTSIDE = 0.01
_TURNS = 4
_PART = 65_536  # rows encoded at a time


class PCAIndex(StoredIndex):
    """Item vectors with bytes of their leading components; `shortlist` is scored exactly."""

    method = "pca"

    def __init__(self, factors: int, shortlist: int = SHORTLIST, seed: int = 1) -> None:
        if not 1 <= factors <= 4096:
            raise ValueError(f"factors {factors}: use 1 to 4096")
        if shortlist < 1:
            raise ValueError(f"shortlist {shortlist}: must be at least 1")
        super().__init__(factors, seed)
        self.shortlist = shortlist
        self._salt = np.uint64(seed & (2**64 - 1))
        self._vectors = np.zeros((0, factors), np.float32)
        self._coarse, self._fine = np.zeros((2, 0), np.int8)
        self._axes = np.zeros((_AXES, factors), np.float32)
        self._scales = np.zeros(scan.COLUMNS, np.float32)
        self._sample = np.empty((2, scan.GROUP * scan.SAMPLED_GROUPS), np.int16)
        self._rows, self._places = np.empty((2, 0), np.int64)
        self._keys = np.empty(0, np.uint64)
        self._fitted = self._outside = self._encoded = 0

    def _store(self, rows: Rows, vectors: NDArray[np.float32], size: int) -> None:
        self._vectors = grown(self._vectors, 0, size)
        groups = -(-size // scan.GROUP) * scan.GROUP
        self._coarse = grown(self._coarse, 0, groups * (1 + scan.COARSE))
        self._fine = grown(self._fine, 0, groups * scan.FINE)
        self._vectors[rows] = vectors
        room = len(self._biases) + scan.GROUP
        if len(self._rows) < room:
            self._rows, self._places = np.empty((2, room), np.int64)
            self._keys = np.empty(room, np.uint64)

    def update(self, rows: Rows, vectors: NDArray[np.float32], biases: NDArray[np.float32]) -> None:
        """Set or append rows; now and then every item is encoded along new axes, .3 us each."""
        super().update(rows, vectors, biases)
        if not len(rows):
            return
        if self.size < 2 * self._fitted and self._encoded < _TURNS * self._fitted:
            self._encode(np.asarray(rows, np.int64))
            if self._outside <= _OUTSIDE * self._encoded * scan.COLUMNS:
                return
        self._fit()
        self._encode(np.arange(self.size))

    def _fit(self) -> None:
        """Find axes and units for the items as they are now."""
        vectors, biases = self._vectors[: self.size], self._biases[: self.size]
        moments = np.zeros((self.factors, self.factors))
        for first in range(0, self.size, _PART):
            part = vectors[first : first + _PART].astype(np.float64)
            moments += part.T @ part
        values, axes = np.zeros(self.factors), np.zeros((self.factors, self.factors))
        symmetric_eigen(moments, values, axes)
        kept = min(_AXES, self.factors)
        self._axes[:] = 0
        self._axes[:kept] = axes[:kept]
        largest = np.zeros(scan.COLUMNS, np.float32)
        axis = np.delete(np.arange(scan.COLUMNS), scan.COARSE)
        largest[scan.COARSE] = np.abs(biases).max()
        for first in range(0, self.size, _PART):
            rotated = vectors[first : first + _PART] @ self._axes.T
            largest[axis] = np.maximum(largest[axis], np.abs(rotated).max(axis=0))
        with np.errstate(divide="ignore"):
            scales = 127 / (_ROOM * largest)
        self._scales[:] = np.where(np.isfinite(scales), scales, 0)
        self._fitted, self._outside, self._encoded = self.size, 0, 0

    def _encode(self, rows: Rows) -> None:
        for first in range(0, len(rows), _PART):
            part = rows[first : first + _PART]
            rotated = self._vectors[part] @ self._axes.T
            self._outside += scan.encode(
                rotated, self._biases[part], part, self._scales, self._coarse, self._fine
            )
            self._encoded += len(part)

    def _found(self, p: NDArray[np.float32], count: int, keep: RowFilter) -> SearchResult:
        shortlist = max(self.shortlist, _A_COUNT * count) * self.level.factor
        if self.level.exact:
            shortlist = self.size
        best = 2 * count + 64
        while True:
            shortlist, best = min(shortlist, self.size), min(best, self.size)
            rows, scores = self._ranked(p, shortlist, best)
            kept, stopped = walk_ranking(rows, 0, count, keep)
            # Good items are missing from the tail, so the answer must come from the better half.
            if (2 * stopped <= shortlist and len(kept) == count) or shortlist == best == self.size:
                return rows[kept], scores[kept]
            shortlist, best = 4 * shortlist, 4 * best

    def _ranked(self, p: NDArray[np.float32], shortlist: int, best: int) -> SearchResult:
        """Return the `best` of the shortlist, in their order, with exact scores."""
        many = scan.search(
            self._coarse, self._fine, self._axes, self._scales, self.size, shortlist, best,
            self._vectors, self._biases, p, self._salt, self._sample,
            self._rows, self._keys, self._places, self._scores,
        )  # fmt: skip
        best = min(best, many)
        order = self._places[:best][np.argsort(self._keys[:best])[::-1]]
        return self._rows[order], self._scores[order]
