"""Sketches of fixed size, in exact integers: the order of what they count does not matter.

CountMinSketch: ratings per item in a fixed number of cells.

    count <= estimate
    estimate <= count + e/width * total      with probability 1 - e^-depth for each key

(Cormode, Muthukrishnan 2005; the inequality signs in Balu 2016, section 2.3.2, are garbled.) The
estimate is never too small.

SeenFilter: the (user, item) pairs seen, without false negatives. A pair that was not added is found
with probability `ratios()[1]`, and the item is then missing from a list that it might have been in
(Balu 2016, section 2.3.2, in the blocked form of Putze, Sanders, Singler 2007;
`kernels/sketches/bloom_blocks.py` has the equations).

AmsSketch: concentration of ratings on few items, F2 = sum of squared item counts, by fast AMS.

    estimate = median over `depth` rows of F_j;   relative deviation of one row sqrt(2 / width)

F2 / total^2 is the probability that two random ratings are of one item: it jumps when a flood of
ratings hits one item. Only F2: for other moments the construction of Balu 2016, section 2.3.2.7, is
wrong.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.instrumentation import timed
from stream_app.kernels.machine.scalars import PRIME
from stream_app.kernels.sketches import ams_counters as second_moment
from stream_app.kernels.sketches import bloom_blocks, count_min_cells
from stream_app.kernels.sketches.bloom_blocks import BLOCK_BYTES
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


class SeenFilter(FixedArrays):
    """A split-block Bloom filter of (user, item) keys; its size never changes."""

    def __init__(self, size_bytes: int, seed: int = 1) -> None:
        if not BLOCK_BYTES <= size_bytes < 2**32 * BLOCK_BYTES:
            raise ValueError(f"seen filter of {size_bytes} bytes: use {BLOCK_BYTES} to 2^37")
        if not 0 <= seed < 2**64:
            raise ValueError(f"seed {seed}: use 0 to 2^64 - 1")
        super().__init__()
        blocks = np.zeros((size_bytes // BLOCK_BYTES, bloom_blocks.WORDS), np.uint32)
        self._blocks = self.keep("blocks", blocks)
        (self._pages,) = self.maps()
        self._seed = np.uint64(seed)

    def add_many(self, users: NDArray[np.uint64], items: NDArray[np.uint64]) -> None:
        """Add the pairs (users[i], items[i])."""
        if len(users) != len(items):
            raise ValueError(f"{len(users)} users and {len(items)} items: a pair has one of each")
        timed(bloom_blocks.add, self._blocks, self._pages, users, items, self._seed)

    def test_many(self, users: NDArray[np.uint64], items: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return for each pair whether it was, or seems to have been, added."""
        if len(users) != len(items):
            raise ValueError(f"{len(users)} users and {len(items)} items: a pair has one of each")
        found = np.empty(len(users), np.bool_)
        # Writeable, as a batch's columns are not: for these it would be compiled once more.
        pairs = (np.require(each, np.uint64, ["C", "W"]) for each in (users, items))
        bloom_blocks.test(self._blocks, *pairs, self._seed, found)
        return found

    def ratios(self) -> tuple[float, float]:
        """Return the share of the bits that are set, and the probability that a pair never added is
        found, given these bits; reads the whole filter."""
        ones, found = bloom_blocks.fill(self._blocks)
        return float(ones / (8 * self._blocks.nbytes)), float(found)


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
