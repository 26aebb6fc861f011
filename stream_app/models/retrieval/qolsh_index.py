"""The qoLSH index: a scan of 256-bit codes, narrowed, then exact (Balu 2016, chapter 5).

    1  every item       b + |q| |p| cos(pi Hamming / L)      two codes (2.19), 32 bytes an item
    2  the shortlist    b + p'Wb |q| / (|Wb| L(b))           query against code (5.14)
    3  a third of it    b + q . p                            exact, from the stored vectors

    shortlist = max(a quarter of the items, at most 1000; 8 times the count asked for)

A code encodes the direction of q alone; length and bias are stored beside it. Encoding the bias in
the vector, as [q, b/s] against [p, s], needs a good s and three times the shortlist for the same
recall; ranking by Hamming distance alone loses a quarter of the answer. So an item that everyone
likes is found by its bias, and a zero vector by its bias alone. Steps 1 and 2 may lose an
item; the returned rows are scored and ordered exactly.

Step 2 takes the time of exact scores of 130 to 250 factors, and is left out up to 128: the whole
shortlist is scored. A search most of whose candidates `keep` refuses is repeated with four times
the shortlist; where that is the whole catalogue step 1 is left out, and where its third is, step 2
as well.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.retrieval import code_scan as scan
from stream_app.models.retrieval.index import (
    RowFilter,
    Rows,
    SearchResult,
    StoredIndex,
    grown,
    walk_ranking,
)
from stream_app.models.retrieval.qolsh_codes import Codes, Encoder

_SHARE = 4
_A_COUNT = 8
_NARROW = 3
_SCORED_ALONE = 128  # so many factors need no second estimate
_TAIL = 6


class QoLSHIndex(StoredIndex):
    """Item vectors with their codes; `shortlist` bounds the candidates of a small search, and
    `narrow` says whether step 2 is taken (default: by the number of factors)."""

    method = "qolsh"

    def __init__(
        self,
        factors: int,
        code_bits: int = 256,
        shortlist: int = 1000,
        seed: int = 1,
        narrow: bool | None = None,
    ) -> None:
        if shortlist < 1:
            raise ValueError(f"shortlist {shortlist}: must be at least 1")
        super().__init__(factors, seed)
        self.encoder = Encoder(factors, code_bits, seed=seed)
        self.shortlist = shortlist
        self.narrow = factors > _SCORED_ALONE if narrow is None else narrow
        self._salt = np.uint64(seed & (2**64 - 1))
        self._sums = np.empty((8 * self.encoder.words, 256), np.float32)
        self._sample = np.empty(scan.SAMPLE, np.float32)
        self._rows, self._places = np.empty((2, 0), np.int64)
        self._keys, self._values = np.empty(0, np.uint64), np.empty(0, np.float32)
        self._codes = np.zeros((self.encoder.words, 0), np.uint64)
        self._vectors = np.zeros((0, factors), np.float32)
        self._norms = np.zeros(0, np.float32)
        self._scales = np.zeros(0, np.float32)

    def _store(self, rows: Rows, vectors: NDArray[np.float32], size: int) -> None:
        self._codes = grown(self._codes, 1, size)
        self._vectors = grown(self._vectors, 0, size + scan.ROOM)
        self._norms = grown(self._norms, 0, size)
        self._scales = grown(self._scales, 0, size)
        if len(self._rows) < size + scan.ROOM:
            room = size + size // 2 + scan.ROOM
            self._rows, self._places = np.empty((2, room), np.int64)
            self._keys, self._values = np.empty(room, np.uint64), np.empty(room, np.float32)
        codes = self.encoder.encode(vectors)
        aligned = codes.lengths * codes.objectives
        self._codes[:, rows] = codes.words.T
        self._vectors[rows] = vectors
        self._norms[rows] = codes.norms
        self._scales[rows] = np.divide(
            codes.norms, aligned, out=np.zeros_like(aligned), where=aligned > 0
        )

    def _found(self, p: NDArray[np.float32], count: int, keep: RowFilter) -> SearchResult:
        query = self.encoder.encode(p[None, :])
        if self.narrow:
            scan.byte_sums(self.encoder.project(p), self._sums)
        shortlist = max(min(self.shortlist, -(-self.size // _SHARE)), _A_COUNT * count)
        shortlist = _NARROW * self.size if self.level.exact else shortlist * self.level.factor
        while True:
            rows, scores = self._ranked(p, query, shortlist)
            kept, stopped = walk_ranking(rows, 0, count, keep)
            # Good items are missing from the tail, so the answer must come from the better part.
            if len(rows) == self.size or (len(kept) == count and _TAIL * stopped <= shortlist):
                return rows[kept], scores[kept]
            shortlist *= 4

    def _ranked(self, p: NDArray[np.float32], query: Codes, shortlist: int) -> SearchResult:
        """Return the best by exact score that the shortlist is long enough for, all rows where it
        holds all of them, best first."""
        narrowed = min(-(-shortlist // _NARROW) if self.narrow else shortlist, self.size)
        best = self.size if narrowed == self.size else -(-shortlist // _TAIL)
        _, found = scan.search(
            self._codes, query.words[0], self.encoder.bits, self._norms, self._biases,
            query.norms[0], self._scales, self._sums, self.size, min(shortlist, self.size),
            narrowed, best, self._vectors.reshape(-1), p, self._salt, self._sample,
            self._rows, self._places, self._keys, self._values,
        )  # fmt: skip
        order = self._places[np.argsort(self._keys[:found])[::-1][:best]]
        return self._rows[order], self._values[order]
