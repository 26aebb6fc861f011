"""Every index by name, and the one that is exact while that is faster and scans bytes afterwards.

    exact    every score, then the best: the reference
    qolsh    256-bit codes, then exact scores of a shortlist (Balu 2016, chapter 5)
    pca      a byte a component along the principal axes, then exact scores of a shortlist
    auto     exact while that is measured to be faster, then pca: the default

A new index is one file (`index.py` has the base class) and one row of `INDEXES`.

How long the shortlist of the scan must be depends on the items, and which index is faster then on
the machine, too. Whenever the catalogue has doubled, from 1,024 items on, both indexes hold it:

    1  recall       some items are queries; the shortlist doubles until half of the loss that the
                    service level allows is left for the users. Where it would hold half of the
                    items, the search stays exact.
    2  comparison   which a caller with a clock gives (`new_index`); without one the scan is
                    preferred from 8,192 items on

The scan that is preferred stays until a longer shortlist is needed, by these queries or by the
sampled ones of the service level; then both are compared again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_app.models.retrieval.index import (
    ExactIndex,
    RowFilter,
    Rows,
    SearchResult,
    ServiceLevel,
    StoredIndex,
    recall,
)
from stream_app.models.retrieval.pca_index import PCAIndex
from stream_app.models.retrieval.qolsh_index import QoLSHIndex

FIRST_LOOK = 1024
COUNT = 100  # the recall of so many items is measured
_RECALL_QUERIES, _QUERIES = 16, 8
_USUALLY_FASTER = 8192
Comparison = Callable[[StoredIndex, StoredIndex, NDArray[np.float32]], bool]
_Kind = TypeVar("_Kind", ExactIndex, PCAIndex)


class AutoIndex:
    """An exact index that becomes a PCA index where that is faster; `is_faster` compares the PCA
    index (second) with the exact index (first) on some queries (n, factors)."""

    def __init__(self, factors: int, seed: int = 1, is_faster: Comparison | None = None) -> None:
        self._index: ExactIndex | PCAIndex = ExactIndex(factors, seed)
        self._factors, self._seed = factors, seed
        self.is_faster = is_faster or _usually_faster
        self._look_at, self._looked_factor = FIRST_LOOK, 1
        self._level = ServiceLevel()

    @property
    def level(self) -> ServiceLevel:
        """The service level, which may be replaced."""
        return self._level

    @level.setter
    def level(self, level: ServiceLevel) -> None:
        self._level = self._index.level = level

    @property
    def method(self) -> str:
        """The method in use now."""
        return self._index.method

    @property
    def size(self) -> int:
        """Number of items."""
        return self._index.size

    @property
    def memory_bytes(self) -> int:
        """Bytes held by the index in use."""
        return self._index.memory_bytes

    def update(self, rows: Rows, vectors: NDArray[np.float32], biases: NDArray[np.float32]) -> None:
        """Set or append rows; an update that doubles the catalogue, or comes after a longer
        shortlist, measures the methods, 2 us an item."""
        self._index.update(rows, vectors, biases)
        if self._level.exact:
            return
        lengthened = self._level.factor > self._looked_factor
        if self.size >= self._look_at or (lengthened and isinstance(self._index, PCAIndex)):
            self._choose()
            self._look_at, self._looked_factor = 2 * self.size, self._level.factor

    def _choose(self) -> None:
        items, biases = self._index.contents()
        exact = self._as(ExactIndex, items, biases)
        pca = self._as(PCAIndex, items, biases)
        level = pca.level = self._level.copy()
        if not _reached(level, exact, pca, _some(items, _RECALL_QUERIES)):
            self._index = exact
        elif self._index is not pca or level.factor > self._looked_factor:
            self._index = pca if self.is_faster(exact, pca, _some(items, _QUERIES)) else exact
        if self._index is pca:
            self._level.factor = level.factor
        self._index.level = self._level

    def _as(
        self, kind: type[_Kind], items: NDArray[np.float32], biases: NDArray[np.float32]
    ) -> _Kind:
        """Return the index in use, or one of the other kind that holds the same items."""
        if isinstance(self._index, kind):
            return self._index
        index = kind(self._factors, seed=self._seed)
        index.level = self._level
        index.update(np.arange(len(items)), items, biases)
        return index

    def search(self, vector: NDArray[np.float32], count: int, keep: RowFilter) -> SearchResult:
        """Return the best rows that `keep` lets through and their scores."""
        return self._index.search(vector, count, keep)


def _some(items: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Return at most `count` of the items (n, factors), from first to last."""
    return items[:: max(1, len(items) // count)][:count]


def _reached(
    level: ServiceLevel, exact: ExactIndex, pca: PCAIndex, queries: NDArray[np.float32]
) -> bool:
    """Lengthen the shortlist of the PCA index, whose level this is, until it loses half of what is
    allowed; return whether one that is shorter than half of the catalogue does."""
    best = [exact.search(query, COUNT, everything)[1] for query in queries]
    allowed = (1 - level.target) / 2 * len(queries)
    while 2 * level.factor * pca.shortlist < pca.size:
        lost = 0.0
        for query, scores in zip(queries, best, strict=True):
            lost += 1 - recall(pca.search(query, COUNT, everything)[1], scores)
            if lost > allowed:
                break
        else:
            return True
        level.factor *= 2
    return False


def everything(rows: Rows) -> NDArray[np.bool_]:
    """Let every row through."""
    return np.ones(len(rows), np.bool_)


def _usually_faster(first: StoredIndex, *_: object) -> bool:
    return first.size >= _USUALLY_FASTER


Index = StoredIndex | AutoIndex


class IndexSpec(NamedTuple):
    """The sizes of an index: components of a vector, bits of a code, seed of ties and codes."""

    factors: int
    code_bits: int = 256
    seed: int = 1


INDEXES: dict[str, Callable[[IndexSpec], Index]] = {
    "auto": lambda spec: AutoIndex(spec.factors, spec.seed),
    "exact": lambda spec: ExactIndex(spec.factors, spec.seed),
    "pca": lambda spec: PCAIndex(spec.factors, seed=spec.seed),
    "qolsh": lambda spec: QoLSHIndex(spec.factors, spec.code_bits, seed=spec.seed),
}


def build(method: str, factors: int, code_bits: int = 256, seed: int = 1) -> Index:
    """Return an empty index; raises ValueError, with all names, for an unknown one."""
    if method not in INDEXES:
        raise ValueError(f"index {method!r}: must be one of {', '.join(INDEXES)}")
    return INDEXES[method](IndexSpec(factors, code_bits, seed))


_ROUNDS = 3
_CLEARLY = 0.8


def new_index(method: str, factors: int, code_bits: int, seed: int) -> Index:
    """Return an empty index; "auto" measures which one is faster here."""
    index = build(method, factors, code_bits, seed)
    if isinstance(index, AutoIndex):
        index.is_faster = is_clearly_faster
    return index


def is_clearly_faster(
    first: StoredIndex, second: StoredIndex, queries: NDArray[np.float32]
) -> bool:
    """Return whether the second index answers in less than 4/5 of the time of the first one: the
    best of some rounds in turn, after one that compiles."""
    best = [np.inf, np.inf]
    for number in range(_ROUNDS + 1):
        for place, index in enumerate((first, second)):
            began = time.perf_counter()
            for query in queries:
                index.search(query, COUNT, everything)
            if number:
                best[place] = min(best[place], time.perf_counter() - began)
    return bool(best[1] < _CLEARLY * best[0])
