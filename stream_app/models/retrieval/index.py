"""The protocol of an index, and functions shared by indexes: checks, ranking walk, recall."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_app.models.retrieval.service_level import ServiceLevel

Rows = NDArray[np.int64]
_Array = TypeVar("_Array", bound=NDArray[Any])
_ROUNDING = 1e-6  # of float32 sums in another order
RowFilter = Callable[[Rows], NDArray[np.bool_]]


class Index(Protocol):
    """Items in rows 0 .. size-1, searched for the largest bias[row] + q[row] . p.

    Derived from the model, never part of the state. One search or update at a time: scratch is
    shared. `level` is the recall that is wanted, which approximate indexes follow.
    """

    level: ServiceLevel

    @property
    def method(self) -> str:
        """How candidates are found, such as "exact" or "pca"."""

    @property
    def size(self) -> int:
        """Number of items."""

    @property
    def memory_bytes(self) -> int:
        """Bytes held, scratch included."""

    def update(self, rows: Rows, vectors: NDArray[np.float32], biases: NDArray[np.float32]) -> None:
        """Set (n, factors) vectors and (n,) biases of rows; rows from `size` on are appended.

        Raises ValueError, with nothing changed, for a hole between rows, a negative row, a shape
        that does not fit or a value that is not finite. Of a row given twice the last one counts.
        """

    def search(
        self, vector: NDArray[np.float32], count: int, keep: RowFilter
    ) -> tuple[Rows, NDArray[np.float32]]:
        """Return at most `count` rows that `keep` lets through, best first, and their exact scores.

        Ties go by a keyed hash of the row. `keep` gets rows and returns which may be shown; it must
        answer the same for a row each time. Fewer rows come back only if no others are let through.
        """


def checked_update(
    size: int,
    factors: int,
    rows: Rows,
    vectors: NDArray[np.float32],
    biases: NDArray[np.float32],
) -> int:
    """Return the size after an update, or raise ValueError as documented at `Index.update`."""
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


def checked_vector(factors: int, vector: NDArray[np.float32]) -> NDArray[np.float32]:
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
