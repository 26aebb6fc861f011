"""The (user, item) pairs seen, in a fixed number of bytes: no false negatives.

A pair that was added is always found; a pair that was not is found with probability
`ratios()[1]`, and the item is then missing from a list that it might have been in. The
state does not depend on the order of the pairs (Balu 2016, section 2.3.2, in the blocked form of
Putze, Sanders, Singler 2007; `kernels/sketches/bloom_blocks.py` has the equations).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.instrumentation import timed
from stream_app.kernels.sketches import bloom_blocks
from stream_app.kernels.sketches.bloom_blocks import BLOCK_BYTES
from stream_app.models.paged_arrays import FixedArrays


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
