"""Optimal codes: of all 2^L the one that decodes nearest to the vector; what others are held to.

Time and memory double with every bit: 16 bits take about 5 us a vector and 8 factors, 1 MB.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from research.kernels import all_codes
from stream_app.models.retrieval.frame_codes import (
    Codes,
    Frame,
    FrameCoder,
    directions,
    draw_frame,
)

MOST_BITS = 16
_LANES = 16


class ExhaustiveCoder(FrameCoder):
    """From vectors of `factors` components to the best codes of at most 16 bits."""

    def __init__(
        self, factors: int, bits: int = 16, seed: int = 1, frame: Frame = "equal_norm"
    ) -> None:
        if not 1 <= factors <= 4096:
            raise ValueError(f"factors {factors}: use 1 to 4096")
        if not 1 <= bits <= MOST_BITS:
            raise ValueError(f"code bits {bits}: use 1 to {MOST_BITS}; all codes are tried")
        self.factors, self.bits = factors, bits
        exact = draw_frame(factors, bits, seed, frame)
        self._W = exact.astype(np.float32)
        # The last bit of every tried code is -1; the others are the opposites of these.
        images = -exact.sum(axis=1, keepdims=True).T
        for j in range(bits - 1):
            images = np.concatenate([images, images + 2 * exact[:, j]])
        self._lengths = np.linalg.norm(images, axis=1)
        long = self._lengths[:, None] > 1e-6
        tried = np.divide(images, self._lengths[:, None], out=np.zeros_like(images), where=long)
        self._directions = np.ascontiguousarray(tried, np.float32).ravel()

    def encode(self, vectors: NDArray[np.float32]) -> Codes:
        """Return the codes of the directions of (n, factors) finite vectors of any length."""
        self._checked(vectors)
        n = len(vectors)
        units, norms = directions(vectors)
        blocks = -(-n // _LANES)
        lanes = np.zeros((blocks * _LANES, self.factors), np.float32)
        lanes[:n] = units
        flat = np.ascontiguousarray(
            lanes.reshape(blocks, _LANES, self.factors).transpose(0, 2, 1)
        ).ravel()
        numbers, cosines = np.empty((2, blocks * _LANES), np.float32)
        all_codes.best(flat, self.factors, self._directions, numbers, cosines)
        chosen, cosines = numbers[:n].astype(np.int64), cosines[:n]
        opposite = (1 << self.bits) - 1 - chosen
        words = np.where(cosines > 0, chosen, opposite).astype(np.uint64)[:, None]
        lengths = self._lengths[chosen].astype(np.float32)
        return Codes(words, norms.astype(np.float32), lengths, np.abs(cosines))
