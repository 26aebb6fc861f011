"""The PCA index: a scan of a byte a component along the principal axes, then exact scores.

    1  groups of items   whether the largest bias and length in them can reach the shortlist
    2  the items there   bias and 8 components along the leading axes of the items, 9 bytes an item
    3  some of them      8 further components
    4  the shortlist     b + q . p, exact, from the stored vectors

Items of like length and bias share a group: the long ones are found first, and most groups of a
large catalogue are never read.

The axes are the eigenvectors of the items' second moments, from at most 32,768 of the items and
none that is four times as long as 99 of 100 others. A byte reaches to four times the number that
one item in a hundred exceeds; an item that does not fit its bytes belongs to every shortlist. Axes
and units are found again when the catalogue has doubled since, when every item has been set four
times on average, or when many items no longer fit; groups are made anew then. Steps 2 and 3 may
lose an item; the returned rows are scored and ordered exactly.

A search most of whose candidates `keep` refuses is repeated with four times the shortlist.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.linear_algebra import symmetric_eigen
from stream_app.kernels.machine import lanes
from stream_app.kernels.retrieval import pca_scan as scan
from stream_app.kernels.retrieval import principal_axes
from stream_app.models.retrieval.index import (
    RowFilter,
    Rows,
    SearchResult,
    StoredIndex,
    grown,
    walk_ranking,
)

SHORTLIST = 400
_AXES = scan.COARSE + scan.FINE
_ROOM = 1.25  # units reach so far beyond the largest number, where it is not extreme
_USUAL, _TIMES = 0.99, 4.0  # nor further than so many times the number at this quantile
_A_COUNT = 3
_OUTSIDE = 0.02  # share of items that do not fit, from which the units are found again
_TURNS = 4
_LOOKED_AT, _PRODUCTS = 32_768, 1 << 25  # items, and products of two numbers, that axes come from


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
        self._top_biases, self._top_lengths = np.zeros((2, 0), np.float32)
        self._slots, self._names = np.zeros((2, 0), np.int32)
        self._axes = np.zeros(factors * _AXES, np.float32)
        self._scales = np.zeros(scan.COLUMNS, np.float32)
        self._sample = np.empty((2, scan.GROUP * scan.SAMPLED_GROUPS), np.int16)
        self._rows, self._places = np.empty((2, 0), np.int64)
        self._keys = np.empty(0, np.uint64)
        self._beyond = np.zeros(0, np.uint8)
        self._outliers = np.empty(0, np.int64)
        self._fitted = self._outside = self._encoded = 0
        self._most_outside = _OUTSIDE

    def _store(self, rows: Rows, vectors: NDArray[np.float32], size: int) -> None:
        # Rows are read, and their scores written, in blocks that may end behind the last one.
        self._vectors = grown(self._vectors, 0, size + lanes.LANES)
        self._scores = grown(self._scores, 0, size + lanes.LANES)
        groups = -(-size // scan.GROUP) * scan.GROUP
        self._coarse = grown(self._coarse, 0, groups * (1 + scan.COARSE))
        self._fine = grown(self._fine, 0, groups * scan.FINE)
        bounded = -(-groups // (scan.GROUP * lanes.LANES)) * lanes.LANES
        self._top_biases = grown(self._top_biases, 0, bounded)
        self._top_lengths = grown(self._top_lengths, 0, bounded)
        self._vectors[rows] = vectors
        self._beyond = grown(self._beyond, 0, size)
        self._slots, self._names = grown(self._slots, 0, size), grown(self._names, 0, size)
        # New rows follow in new slots.
        self._slots[self.size : size] = self._names[self.size : size] = np.arange(self.size, size)
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
            if self._outside <= self._most_outside * self._encoded:
                return
        self._fit()
        self._encode(np.arange(self.size))
        # However many do not fit now, these axes stay until there are twice as many.
        self._most_outside = max(_OUTSIDE, 2 * self._outside / self.size)

    def contents(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return copies of the vectors (size, factors) and the biases (size,)."""
        return self._vectors[: self.size].copy(), self._biases[: self.size].copy()

    def _fit(self) -> None:
        """Find axes and units for the items as they are now."""
        most = min(_LOOKED_AT, max(_PRODUCTS // self.factors**2, 1024))
        step = -(-self.size // most)
        vectors, biases = self._vectors[: self.size], self._biases[: self.size : step]
        lengths, moments = np.empty(len(biases)), np.empty((self.factors, self.factors))
        principal_axes.squared_lengths(vectors, step, lengths)
        place = int(_USUAL * (len(lengths) - 1))
        usual = _TIMES**2 * np.partition(lengths, place)[place]
        principal_axes.moments(vectors, step, lengths, usual or np.inf, moments)
        values, axes = np.zeros(self.factors), np.zeros((self.factors, self.factors))
        symmetric_eigen(moments, values, axes)
        kept = min(_AXES, self.factors)
        table = np.zeros((self.factors, _AXES), np.float32)
        table[:, :kept] = axes[:kept].T
        self._axes = table.reshape(-1)
        found = np.empty((len(biases), scan.COLUMNS), np.float32)
        found[:, scan.COARSE] = biases
        rotated = np.empty((len(biases), _AXES), np.float32)
        principal_axes.rotated(vectors, step, self._axes, rotated)
        found[:, np.delete(np.arange(scan.COLUMNS), scan.COARSE)] = rotated
        self._scales = _scales(found)
        self._group(step)
        self._fitted, self._outside, self._encoded = self.size, 0, 0

    def _group(self, step: int) -> None:
        """Put items of like length and bias into groups; strata come from every `step`-th item."""
        lengths = np.empty(self.size, np.float32)
        principal_axes.leading_lengths(self._vectors, self._axes, lengths)
        sample, strata = np.sort(lengths[::step]), math.isqrt(-(-self.size // scan.GROUP))
        edges = sample[np.arange(1, strata) * len(sample) // strata]
        # The longest items first; in a stratum of lengths, the largest biases first.
        bits = (-self._biases[: self.size]).view(np.int32).astype(np.int64)
        rising = np.where(bits < 0, ~bits & (2**32 - 1), bits + 2**31)
        strata_of = (strata - np.searchsorted(edges, lengths)) << 32
        order = np.argsort(strata_of + rising, kind="stable")
        self._names[: self.size] = order
        self._slots[order] = np.arange(self.size)
        self._top_biases[:], self._top_lengths[:] = -127, 0

    def _encode(self, rows: Rows) -> None:
        outside = principal_axes.encode(
            self._vectors, self._biases, rows, self._slots, self._axes, self._scales, self._coarse,
            self._fine, self._top_biases, self._top_lengths, self._beyond,
        )  # fmt: skip
        self._outside += outside
        self._encoded += len(rows)
        if outside or len(self._outliers):
            self._outliers = np.flatnonzero(self._beyond[: self.size])

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
            self._coarse, self._fine, self._top_biases, self._top_lengths, self._names, self._axes,
            self._scales, self._beyond, self._outliers, self.size, shortlist, best,
            self._vectors.reshape(-1), self._biases, p, self._salt, self._sample, self._rows,
            self._keys, self._places, self._scores,
        )  # fmt: skip
        order = self._places[np.argsort(self._keys[:many])[::-1][:best]]
        return self._rows[order], self._scores[order]


def _scales(found: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the units of bytes for columns of numbers (n, COLUMNS)."""
    sizes = np.abs(found.astype(np.float64))
    sizes[~np.isfinite(sizes)] = 0.0  # of a sum beyond float32; its item is an outlier
    place = int(_USUAL * (len(sizes) - 1))
    largest = sizes.max(axis=0)
    usual = np.partition(sizes, place, axis=0)[place]
    reach = np.where(usual > 0, np.minimum(_ROOM * largest, _TIMES * usual), _ROOM * largest)
    with np.errstate(divide="ignore", over="ignore"):
        scales = (127 / reach).astype(np.float32)
    return np.where(np.isfinite(scales), scales, np.float32(0))
