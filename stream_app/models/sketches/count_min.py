"""Ratings per item in a fixed number of cells: a count-min sketch.

    count <= estimate
    estimate <= count + e/width * total      with probability 1 - e^-depth for each key

(Cormode, Muthukrishnan 2005; the inequality signs in Balu 2016, section 2.3.2, are garbled.) The
estimate is never too small. Order does not matter.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.instrumentation import timed
from stream_app.kernels.sketches import count_min_cells
from stream_app.models.paged_arrays import FixedArrays

_ONCE = np.empty(0, np.int64)


class CountMinSketch(FixedArrays):
    """A count-min sketch of keys, `depth` rows of `width` 64-bit counters."""

    def __init__(self, depth: int = 4, width: int = 2**16, seed: int = 1) -> None:
        if not 1 <= depth <= 64:
            raise ValueError(f"depth {depth}: use 1 to 64 rows")
        if not 1 <= width <= 2**32:
            raise ValueError(f"width {width}: use 1 to 2^32 cells a row")
        if not 0 <= seed < 2**57:
            raise ValueError(f"seed {seed}: use 0 to 2^57 - 1")
        super().__init__()
        self._cells = self.keep("cells", np.zeros((depth, width), np.int64))
        self._total = self.keep("total", np.zeros(1, np.int64))
        self._pages, self._total_pages = self.maps()
        self._seed = seed
        # Rows of one sketch, and sketches of neighbouring seeds, never share a hash.
        self._seeds = np.array([seed * 64 + j for j in range(depth)], np.uint64)

    def add_many(self, keys: NDArray[np.uint64], counts: NDArray[np.int64] | None = None) -> None:
        """Count each key once, or `counts` times; both ways lead to the same state."""
        if counts is None:
            counts = _ONCE
        elif len(counts) != len(keys):
            raise ValueError(f"{len(counts)} counts of {len(keys)} keys: give one each")
        tables = self._cells, self._pages, self._total, self._total_pages
        timed(count_min_cells.add, *tables, self._seeds, keys, counts)

    def add_cells(self, cells: NDArray[np.int64], counts: NDArray[np.int64], total: int) -> None:
        """Add counts (n,) to distinct cells (n,) of the flat table, and to the number of keys."""
        self.mark_all_dirty()
        self._cells.reshape(-1)[cells] += counts
        self._total += total

    def beyond(
        self, base: CountMinSketch, keys: NDArray[np.uint64], counts: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], int]:
        """Return what was counted beyond a base of the same seed and these keys: the cells of the
        flat table, and the number of keys."""
        rest = CountMinSketch(*self._cells.shape, self._seed)
        rest.add_many(keys, counts)
        cells = (self._cells - base._cells - rest._cells).reshape(-1)
        return cells, self.total - base.total - rest.total

    def estimate_many(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return an upper bound of how often each key was counted, close to it by `error_bound`."""
        counts = np.empty(len(keys), np.int64)
        count_min_cells.estimate(self._cells, self._seeds, keys, counts)
        return counts

    @property
    def total(self) -> int:
        """Number of keys counted."""
        return int(self._total[0])

    @property
    def error_bound(self) -> float:
        """Bound on estimate minus count that holds with probability 1 - e^-depth."""
        return math.e / self._cells.shape[1] * self.total
