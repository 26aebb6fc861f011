"""Concentration of ratings on few items: F2 = sum of squared item counts, by fast AMS.

    estimate = median over `depth` rows of F_j;   relative deviation of one row sqrt(2 / width)

F2 / total^2 is the probability that two random ratings are of one item: it jumps when a flood of
ratings hits one item. Only F2: for other moments the construction of Balu 2016, section 2.3.2.7, is
wrong. Exact integers; order does not matter.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.instrumentation import timed
from stream_app.kernels.machine.scalars import PRIME
from stream_app.kernels.sketches import ams_counters as second_moment
from stream_app.models.paged_arrays import FixedArrays

_MASK = 2**64 - 1


def _coefficients(depth: int, seed: int) -> NDArray[np.uint64]:
    """Return (depth, 4) field elements, splitmix64's sequence from `seed`."""
    values = []
    for step in range(1, 4 * depth + 1):
        x = (seed * 0xD1342543DE82EF95 + step * 0x9E3779B97F4A7C15) & _MASK
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
        values.append((x ^ (x >> 31)) % int(PRIME))
    return np.array(values, np.uint64).reshape(depth, 4)


class AmsSketch(FixedArrays):
    """A fast AMS sketch, `depth` rows of `width` signed cells."""

    def __init__(self, depth: int = 5, width: int = 256, seed: int = 1) -> None:
        if not 1 <= depth <= 64:
            raise ValueError(f"depth {depth}: use 1 to 64 rows")
        if not 1 <= width <= 2**31:
            raise ValueError(f"width {width}: use 1 to 2^31 cells a row")
        super().__init__()
        self._seed = seed
        self._cells = self.keep("cells", np.zeros((depth, width), np.int64))
        self._moments = self.keep("moments", np.zeros(depth, np.int64))
        self._coefficients = _coefficients(depth, seed)

    def add_many(self, keys: NDArray[np.uint64], counts: NDArray[np.int64] | None = None) -> None:
        """Count each key once, or `counts` times; both ways lead to the same state."""
        counts = np.ones(len(keys), np.int64) if counts is None else counts
        self.mark_all_dirty()  # a few pages, and a batch of keys writes to most of them
        timed(second_moment.add, self._cells, self._moments, self._coefficients, keys, counts)

    def add_cells(self, cells: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Add counts (n,) to distinct cells (n,) of the flat table."""
        self.mark_all_dirty()
        self._cells.reshape(-1)[cells] += counts
        self._moments[:] = (self._cells * self._cells).sum(axis=1)

    def beyond(
        self, base: AmsSketch, keys: NDArray[np.uint64], counts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return what was counted beyond a base of the same seed and these keys: the cells of the
        flat table."""
        rest = AmsSketch(*self._cells.shape, self._seed)
        rest.add_many(keys, counts)
        return (self._cells - base._cells - rest._cells).reshape(-1)

    def estimate(self) -> float:
        """Return the median of the rows' second moments."""
        return float(np.median(self._moments))

    @property
    def relative_deviation(self) -> float:
        """Standard deviation of the estimate over F2, at most.

        The median of k normal values has about sqrt(pi / (2k + pi - 2)) of their deviation.
        """
        depth, width = self._cells.shape
        return math.sqrt(2.0 / width) * math.sqrt(math.pi / (2 * depth + math.pi - 2))
