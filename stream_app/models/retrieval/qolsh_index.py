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

qoLSH: 256 bits that encode the direction of a vector (Balu 2016, chapter 5).

    x_hat = W b / |W b|       the direction that a code decodes to           (5.4)
    L(b)  = x . x_hat         increased by greedy flips; mean |x - x_hat|^2 = 2 - 2 mean L(b)

`flips=0` is plain sign coding (LSH). With `starts` n > 1 the greedy search also starts from n - 1
other codes, each with some of the least certain bits flipped, and the best code is kept: never
worse, n times the time (8 factors, 16 bits: mean error .0917 of one start, .0733 of 16, .0691 of
64, .0654 of the best code there is). With as many bits as factors, or fewer, the frame is
orthonormal and signs are optimal. A zero vector has no direction: it gets the code of all ones and
is flagged. A code reveals much about its vector: it is no protection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.retrieval import code_scan as scan
from stream_app.kernels.retrieval import qolsh
from stream_app.models.retrieval.index import (
    RowFilter,
    Rows,
    SearchResult,
    StoredIndex,
    grown,
    walk_ranking,
)

Frame = Literal["equal_norm", "qr", "gaussian"]
_PROJECTIONS = 200


def draw_frame(factors: int, bits: int, seed: int, kind: Frame) -> NDArray[np.float64]:
    """Return W, (factors, bits).

    "qr": rows of a random orthonormal basis, a tight frame (5.9). "equal_norm": a tight frame near
    it with columns of one length, by alternating projections (Tropp et al. 2005); better and
    steadier from seed to seed. "gaussian": independent directions, LSH (Charikar 2002).
    """
    gaussian = np.random.Generator(np.random.PCG64(seed)).standard_normal((bits, factors))
    if kind == "gaussian":
        return np.ascontiguousarray((gaussian / np.linalg.norm(gaussian, axis=1)[:, None]).T)
    if bits <= factors:
        return np.ascontiguousarray(np.linalg.qr(gaussian.T)[0])
    frame = np.linalg.qr(gaussian)[0].T
    if kind == "equal_norm":
        for _ in range(_PROJECTIONS):
            lengths = np.linalg.norm(frame, axis=0)
            if np.ptp(lengths) < 1e-9:
                break
            frame = frame / lengths
            # The nearest tight frame is (W W')^(-1/2) W.
            values, vectors = np.linalg.eigh(frame @ frame.T)
            frame = (vectors / np.sqrt(values)) @ vectors.T @ frame
    return np.ascontiguousarray(frame)


@dataclass(frozen=True, eq=False)
class Codes:
    """Codes of n vectors: words (n, words) uint64; |x|, |Wb| and L(b), each (n,) float32.
    The norm of a zero vector is 0: its code carries no information."""

    words: NDArray[np.uint64]
    norms: NDArray[np.float32]
    lengths: NDArray[np.float32]
    objectives: NDArray[np.float32]


class FrameCoder(ABC):
    """Codes of `bits` bits of directions of `factors` components; they decode to Wb / |Wb|.

    W: (factors, bits) float32, the frame.
    """

    factors: int
    bits: int
    _W: NDArray[np.float32]

    @abstractmethod
    def encode(self, vectors: NDArray[np.float32]) -> Codes:
        """Return the codes of the directions of (n, factors) finite vectors of any length."""

    @property
    def words(self) -> int:
        """Number of 64-bit words of a code; bits past `bits` are zero in every code."""
        return -(-self.bits // 64)

    def project(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return W'y, (bits,), from which the cosine with any code is a signed sum."""
        return vector @ self._W

    def _checked(self, vectors: NDArray[np.float32]) -> None:
        if vectors.ndim != 2 or vectors.shape[1] != self.factors:
            raise ValueError(f"vectors of shape {vectors.shape}: use (n, {self.factors})")


__all__ = ["Codes", "Encoder", "Frame", "draw_frame"]

_LANES = 16
_MOST_STARTS = 65_536


@dataclass(frozen=True, eq=False)
class Encoder(FrameCoder):
    """From vectors of `factors` components to codes of `bits` bits."""

    factors: int
    bits: int = 256
    flips: int = 10
    seed: int = 1
    frame: Frame = "equal_norm"
    starts: int = 1
    _W: NDArray[np.float32] = field(init=False, repr=False)
    _tables: tuple[NDArray[np.float32], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.factors <= 4096:
            raise ValueError(f"factors {self.factors}: use 1 to 4096")
        if not 1 <= self.bits <= 4096:
            raise ValueError(f"code bits {self.bits}: use 1 to 4096")
        if self.flips < 0:
            raise ValueError(f"flips {self.flips}: must not be negative")
        if not 1 <= self.starts <= min(_MOST_STARTS, 1 << min(self.bits, 63)):
            raise ValueError(f"starts {self.starts}: use 1 to {_MOST_STARTS}, and at most 2^bits")
        if self.frame not in ("equal_norm", "qr", "gaussian"):
            raise ValueError(f"frame {self.frame!r}: use equal_norm, qr or gaussian")
        frame = draw_frame(self.factors, self.bits, self.seed, self.frame)
        exact = frame.T @ frame
        gram, diagonal = _padded(exact), _padded(np.diag(exact)[None])[0]
        object.__setattr__(self, "_W", frame.astype(np.float32))
        object.__setattr__(self, "_tables", (_padded(frame), _padded(frame.T), gram, diagonal))

    def encode(self, vectors: NDArray[np.float32]) -> Codes:
        """Return the codes of the directions of (n, factors) finite vectors of any length."""
        self._checked(vectors)
        n = len(vectors)
        words = np.empty((n, self.words), np.uint64)
        norms, lengths, objectives = np.empty((3, n), np.float32)
        # Signs are the best code there is when the frame is orthonormal: no flip can help.
        best = self.bits <= self.factors and self.frame != "gaussian"
        search = (0, 1) if best else (self.flips, self.starts)
        given = np.ascontiguousarray(vectors, np.float32)
        qolsh.encode(given, *self._tables, *search, words, norms, lengths, objectives)
        return Codes(words, norms, lengths, objectives)


def _padded(matrix: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return a matrix as float32, with columns of zeros up to a multiple of 16: full registers."""
    rows, columns = matrix.shape
    wide = np.zeros((rows, -(-columns // _LANES) * _LANES), np.float32)
    wide[:, :columns] = matrix
    return wide


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
