"""The qoLSH index: a scan of 256-bit codes, narrowed twice, then exact (Balu 2016, chapter 5).

    1  every item       b + |q| |p| cos(pi Hamming / L)      two codes (2.19), 32 bytes an item
    2  the shortlist    b + p'Wb |q| / (|Wb| L(b))           query against code (5.14)
    3  a third of it    b + q . p                            exact, from the stored vectors

    shortlist = max(a quarter of the items, at most 1000; 8 times the count asked for)

A code encodes the direction of q alone; length and bias are stored beside it. Encoding the bias in
the vector, as [q, b/s] against [p, s], needs a good s and three times the shortlist for the same
recall; ranking by Hamming distance alone loses a quarter of the answer. So an item that everyone
likes is found by its bias, and a zero vector by its bias alone. Steps 1 and 2 may lose an
item; the returned rows are scored and ordered exactly.

A search most of whose candidates `keep` refuses is repeated with four times the shortlist; where
that is the whole catalogue step 1 is left out, and where its third is, step 2 as well.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.retrieval import exact_scan as scan
from stream_app.kernels.retrieval import qolsh
from stream_app.models.retrieval.base import SearchResult, StoredIndex
from stream_app.models.retrieval.index import RowFilter, Rows, grown, walk_ranking
from stream_app.models.retrieval.qolsh_codes import Encoder, Frame

_SHARE = 4
_A_COUNT = 8
_NARROW = 3


class QoLSHIndex(StoredIndex):
    """Item vectors with their codes; `shortlist` bounds the candidates of a small search."""

    method = "qolsh"

    def __init__(
        self,
        factors: int,
        code_bits: int = 256,
        flips: int = 10,
        shortlist: int = 1000,
        seed: int = 1,
        frame: Frame = "equal_norm",
    ) -> None:
        if shortlist < 1:
            raise ValueError(f"shortlist {shortlist}: must be at least 1")
        super().__init__(factors, seed)
        self.encoder = Encoder(factors, code_bits, flips, seed, frame)
        self.shortlist = shortlist
        self._sums = np.empty((8 * self.encoder.words, 256), np.float32)
        self._codes = np.zeros((self.encoder.words, 0), np.uint64)
        self._vectors = np.zeros((0, factors), np.float32)
        self._norms = np.zeros(0, np.float32)
        self._scales = np.zeros(0, np.float32)

    def _store(self, rows: Rows, vectors: NDArray[np.float32], size: int) -> None:
        self._codes = grown(self._codes, 1, size)
        self._vectors = grown(self._vectors, 0, size)
        self._norms = grown(self._norms, 0, size)
        self._scales = grown(self._scales, 0, size)
        codes = self.encoder.encode(vectors)
        aligned = codes.lengths * codes.objectives
        self._codes[:, rows] = codes.words.T
        self._vectors[rows] = vectors
        self._norms[rows] = codes.norms
        self._scales[rows] = np.divide(
            codes.norms, aligned, out=np.zeros_like(aligned), where=aligned > 0
        )

    def _found(self, p: NDArray[np.float32], count: int, keep: RowFilter) -> SearchResult:
        estimates = self._scores[: self.size]
        query = self.encoder.encode(p[None, :])
        qolsh.from_codes(
            self._codes,
            query.words[0],
            self.encoder.bits,
            self._norms,
            self._biases,
            query.norms[0],
            estimates,
        )
        qolsh.byte_sums(self.encoder.project(p), self._sums)
        shortlist = max(min(self.shortlist, -(-self.size // _SHARE)), _A_COUNT * count)
        shortlist = self.size if self.level.exact else shortlist * self.level.factor
        while True:
            rows, scores = self._ranked(p, estimates, shortlist)
            kept, stopped = walk_ranking(rows, 0, count, keep)
            # Good items are missing from the tail, so the answer must come from the better half;
            # a walk that did not find enough stopped at the end.
            if stopped <= len(rows) // 2 or len(rows) == self.size:
                return rows[kept], scores[kept]
            shortlist *= 4

    def _ranked(
        self, p: NDArray[np.float32], estimates: NDArray[np.float32], shortlist: int
    ) -> SearchResult:
        """Return a third of the shortlist, chosen by query against code, by exact score."""
        narrowed = -(-shortlist // _NARROW)
        if shortlist < self.size:
            rows = self._ranker.best(estimates, shortlist)
        else:
            rows = np.arange(self.size)
        if narrowed < self.size:
            better = np.empty(len(rows), np.float32)
            qolsh.from_projection(self._codes, rows, self._sums, self._scales, self._biases, better)
            rows = rows[self._ranker.best(better, narrowed, rows)]
        scores = np.empty(len(rows), np.float32)
        scan.chosen(self._vectors, self._biases, rows, p, scores)
        order = self._ranker.ranking(scores, len(rows), rows)
        return rows[order], scores[order]
