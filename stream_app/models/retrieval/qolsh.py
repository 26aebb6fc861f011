"""The qoLSH index: a scan of 256-bit codes, narrowed twice, then exact (S004 chapter 5).

    1  every item       b + |q| |p| cos(pi Hamming / L)      two codes (2.19), 32 bytes an item
    2  the shortlist    b + p'Wb |q| / (|Wb| L(b))           query against code (5.14)
    3  a third of it    b + q . p                            exact, from the stored vectors

A code stands for the direction of q alone; length and bias stay numbers beside it. To pack the bias
into the coded vector, as [q, b/s] against [p, s], needs a good s and three times the shortlist for
the same recall; to rank by Hamming distance alone loses a quarter of the answer. So an item that
everyone likes is found by its bias, and a zero vector by nothing else. Steps 1 and 2 may lose an
item; what is returned is scored and ordered exactly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels import qolsh, scan
from stream_app.models.codes import Encoder, Frame
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

_NARROW = 3


class QoLSHIndex:
    """Item vectors with their codes; `shortlist` items get past the first step of a search."""

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
        self.encoder = Encoder(factors, code_bits, flips, seed, frame)
        self.factors = factors
        self.shortlist = shortlist
        self.size = 0
        self._ranker = Ranker(seed)
        self._sums = np.empty((8 * self.encoder.words, 256), np.float32)
        self._codes = np.zeros((self.encoder.words, 0), np.uint64)
        self._vectors = np.zeros((0, factors), np.float32)
        self._biases = np.zeros(0, np.float32)
        self._norms = np.zeros(0, np.float32)
        self._scales = np.zeros(0, np.float32)
        self._scores = np.zeros(0, np.float32)

    def update(self, rows: Rows, vectors: NDArray[np.float32], biases: NDArray[np.float32]) -> None:
        """Set or append rows."""
        size = checked_update(self.size, self.factors, rows, vectors, biases)
        self._codes = grown(self._codes, 1, size)
        self._vectors = grown(self._vectors, 0, size)
        self._biases = grown(self._biases, 0, size)
        self._norms = grown(self._norms, 0, size)
        self._scales = grown(self._scales, 0, size)
        self._scores = grown(self._scores, 0, size)
        codes = self.encoder.encode(vectors)
        aligned = codes.lengths * codes.objectives
        self._codes[:, rows] = codes.words.T
        self._vectors[rows] = vectors
        self._biases[rows] = biases
        self._norms[rows] = codes.norms
        self._scales[rows] = np.divide(
            codes.norms, aligned, out=np.zeros_like(aligned), where=aligned > 0
        )
        self.size = size

    def search(
        self, vector: NDArray[np.float32], count: int, keep: Keep
    ) -> tuple[Rows, NDArray[np.float32]]:
        """Return the best rows found that `keep` lets through and their scores."""
        p = checked_vector(self.factors, vector)
        if count <= 0 or self.size == 0:
            return nothing()
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
        shortlist = max(self.shortlist, 8 * count)
        while True:
            rows, scores = self._ranked(p, estimates, shortlist)
            kept, stopped = walk(rows, 0, count, keep)
            # Good items are missing from the tail, so the answer must come from the better half;
            # a walk that did not find enough stopped at the end.
            if stopped <= len(rows) // 2 or len(rows) == self.size:
                return rows[kept], scores[kept]
            shortlist *= 4

    def _ranked(
        self, p: NDArray[np.float32], estimates: NDArray[np.float32], shortlist: int
    ) -> tuple[Rows, NDArray[np.float32]]:
        """Return the narrowed shortlist, or all rows if it is half of them, by exact score."""
        if 2 * shortlist >= self.size:
            rows = np.arange(self.size)
        else:
            rows = self._ranker.best(estimates, shortlist)
            better = np.empty(len(rows), np.float32)
            qolsh.from_projection(self._codes, rows, self._sums, self._scales, self._biases, better)
            rows = rows[self._ranker.best(better, -(-shortlist // _NARROW), rows)]
        scores = np.empty(len(rows), np.float32)
        scan.chosen(self._vectors, self._biases, rows, p, scores)
        order = self._ranker.ranking(scores, len(rows), rows)
        return rows[order], scores[order]

    @property
    def memory_bytes(self) -> int:
        """Bytes held, scratch included."""
        arrays = (
            self._codes,
            self._vectors,
            self._biases,
            self._norms,
            self._scales,
            self._scores,
        )
        return sum(a.nbytes for a in arrays) + self._ranker.memory_bytes
