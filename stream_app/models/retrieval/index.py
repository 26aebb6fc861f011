"""What indexes share: the base class with the checks of every call, ranking, recall, service level.

The order of answers: higher score first, ties by a keyed hash of the row, not by age. The exact
index has every score, then the best: the reference, and faster for small catalogues.

The service level says how long a shortlist must be for the recall that was asked for. Every so
often a query is answered exactly, too. The mean recall of WINDOW such samples decides:

    below the target                               the shortlist is twice as long from now on
    half of the allowed loss or less, for          it is half as long again, never shorter than
    RELAXED windows in a row                       at first

A target of 1 means that every search is exact. One level serves every index of a worker, also one
that replaces another.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.retrieval import exact_scan as scan
from stream_app.kernels.retrieval.top_k import top_k

WINDOW, RELAXED = 40, 10
_MOST = 1 << 20


class ServiceLevel:
    """The target, and how many times its first length a shortlist has now (`factor`)."""

    def __init__(self, target: float = 0.99) -> None:
        if not 0 < target <= 1:
            raise ValueError(f"recall {target}: must be above 0 and at most 1 (1: exact search)")
        self.target, self.factor = target, 1
        self._samples: list[float] = []
        self._relaxed = 0

    def copy(self) -> ServiceLevel:
        """Return a level of its own with this target and factor, before its first sample."""
        found = ServiceLevel(self.target)
        found.factor = self.factor
        return found

    @property
    def exact(self) -> bool:
        """Whether only exact search reaches the target."""
        return self.target >= 1

    def observe(self, recall: float) -> bool:
        """Enter the recall of one sampled query (NaN: none); return whether the factor changed."""
        if math.isnan(recall):
            return False
        self._samples.append(recall)
        if len(self._samples) < WINDOW:
            return False
        mean = math.fsum(self._samples) / WINDOW
        self._samples.clear()
        before = self.factor
        if mean < self.target:
            self.factor, self._relaxed = min(2 * self.factor, _MOST), 0
        elif mean >= (1 + self.target) / 2:
            self._relaxed += 1
            if self._relaxed >= RELAXED:
                self.factor, self._relaxed = max(self.factor // 2, 1), 0
        else:
            self._relaxed = 0
        return self.factor != before


Rows = NDArray[np.int64]
SearchResult = tuple[Rows, NDArray[np.float32]]
RowFilter = Callable[[Rows], NDArray[np.bool_]]
_Array = TypeVar("_Array", bound=NDArray[Any])
_ROUNDING = 1e-6  # of float32 sums in another order
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
        n = top_k(
            scores, scores.view(np.int32), names, count, self._salt, self._places, self._keys,
            self._reached,
        )  # fmt: skip
        return self._places[:n], self._keys[:n]

    @property
    def memory_bytes(self) -> int:
        """Size of the scratch."""
        return self._places.nbytes + self._keys.nbytes + self._reached.nbytes


class StoredIndex(ABC):
    """Items in rows 0 .. size-1, searched for the largest bias[row] + q[row] . p: a subclass stores
    the vectors in its own layout and finds the best.

    Derived from the model, never part of the state. One search or update at a time: scratch is
    shared. `level` is the recall that is wanted, which approximate indexes follow; `method` says
    how candidates are found, such as "exact" or "pca".
    """

    method: str

    def __init__(self, factors: int, seed: int) -> None:
        self.factors = factors
        self.size = 0
        self.level = ServiceLevel()
        self._ranker = Ranker(seed)
        self._biases = np.zeros(0, np.float32)
        self._scores = np.zeros(0, np.float32)

    def update(self, rows: Rows, vectors: NDArray[np.float32], biases: NDArray[np.float32]) -> None:
        """Set (n, factors) vectors and (n,) biases of rows; rows from `size` on are appended.

        Raises ValueError, with nothing changed, for a hole between rows, a negative row, a shape
        that does not fit or a value that is not finite. Of a row given twice the last one counts.
        """
        size = _checked_update(self.size, self.factors, rows, vectors, biases)
        self._biases = grown(self._biases, 0, size)
        self._scores = grown(self._scores, 0, size)
        self._store(rows, vectors, size)
        self._biases[rows] = biases
        self.size = size

    def search(self, vector: NDArray[np.float32], count: int, keep: RowFilter) -> SearchResult:
        """Return at most `count` rows that `keep` lets through, best first, and their exact scores.

        Ties go by a keyed hash of the row. `keep` gets rows and returns which may be shown; it must
        answer the same for a row each time. Fewer rows come back only if no others are let through.
        """
        p = _checked_vector(self.factors, vector)
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


def _checked_update(
    size: int,
    factors: int,
    rows: Rows,
    vectors: NDArray[np.float32],
    biases: NDArray[np.float32],
) -> int:
    """Return the size after an update, or raise ValueError as `StoredIndex.update` says."""
    n = len(rows)
    if vectors.shape != (n, factors) or biases.shape != (n,):
        raise ValueError(
            f"{n} rows with vectors {vectors.shape} and biases {biases.shape}: "
            f"use ({n}, {factors}) and ({n},)"
        )
    if n == 0:
        return size
    if rows.min() < 0:
        raise ValueError(f"row {rows.min()}: rows count from 0")
    after = max(size, int(rows.max()) + 1)
    if after > size and len(np.unique(rows[rows >= size])) != after - size:
        raise ValueError(
            f"rows up to {after - 1} after {size} items: rows are appended without a hole"
        )
    if not (np.isfinite(vectors).all() and np.isfinite(biases).all()):
        bad = ~(np.isfinite(vectors).all(axis=1) & np.isfinite(biases))
        raise ValueError(f"row {rows[bad][0]}: vectors and biases must be finite")
    return after


def _checked_vector(factors: int, vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the query as contiguous float32, or raise ValueError."""
    if vector.shape != (factors,):
        raise ValueError(f"query vector of shape {vector.shape}: use ({factors},)")
    # Finite squares are the rule, and cost a third of a look at every number.
    if not math.isfinite(vector.dot(vector)) and not np.isfinite(vector).all():
        raise ValueError("query vector: must be finite")
    return np.ascontiguousarray(vector, np.float32)


def grown(array: _Array, axis: int, needed: int) -> _Array:
    """Return the array with room for `needed` along `axis`; one that must move gets half more."""
    have = array.shape[axis]
    if needed <= have:
        return array
    shape = list(array.shape)
    shape[axis] = max(needed, have + have // 2, 64)
    larger: _Array = np.zeros(shape, array.dtype)  # type: ignore[assignment]
    larger[tuple(slice(0, s) for s in array.shape)] = array
    return larger


def walk_ranking(ranking: Rows, start: int, wanted: int, keep: RowFilter) -> tuple[Rows, int]:
    """Apply `keep` down a ranking from `start`; return the kept places and the stop position."""
    kept = np.empty(0, np.int64)
    step = wanted + wanted // 2 + 8
    while start < len(ranking) and len(kept) < wanted:
        part = ranking[start : start + step]
        passed = np.flatnonzero(keep(part))
        kept = np.concatenate((kept, passed + start)) if start else passed
        start += len(part)
        step *= 2
    return kept[:wanted], int(kept[wanted - 1]) + 1 if len(kept) >= wanted else start


def recall(found: NDArray[np.floating], exact: NDArray[np.floating]) -> float:
    """Return the share of the exact answer that was found, from the scores of both: of items whose
    scores differ by rounding at most, any one will do. 1 where there was nothing to find."""
    if not len(exact):
        return 1.0
    least = exact.min() - _ROUNDING * np.abs(exact).max()
    return min(int((found >= least).sum()), len(exact)) / len(exact)


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
