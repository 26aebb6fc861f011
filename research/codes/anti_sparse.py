"""Anti-sparse codes: the signs of the representation of least magnitude (Balu 2016, section 5.2).

    min max_j |a_j|  where  Wa = x,   b = sign(a)

All but d - 1 components of `a` are at the magnitude itself, so that signs tell more of it than of
W'x. The linear program is solved exactly (`kernels/retrieval/least_magnitude.py`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from research.kernels.least_magnitude import represent_all
from stream_app.models.retrieval.frame_codes import (
    Codes,
    Frame,
    FrameCoder,
    directions,
    draw_frame,
)

_EXCHANGES = 50  # at most so many times L
_CHUNK = 1 << 16


class AntiSparseCoder(FrameCoder):
    """From vectors of `factors` components to codes of `bits` bits, at least as many."""

    def __init__(
        self, factors: int, bits: int = 256, seed: int = 1, frame: Frame = "equal_norm"
    ) -> None:
        if not 1 <= factors <= bits <= 4096:
            raise ValueError(
                f"factors {factors}, code bits {bits}: use 1 <= factors <= bits <= 4096"
            )
        self.factors, self.bits = factors, bits
        self._W = draw_frame(factors, bits, seed, frame).astype(np.float32)

    def represent(self, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return `a` of each direction, (n, bits); zeros for a zero vector."""
        self._checked(vectors)
        units, norms = directions(vectors)
        a = np.zeros((len(units), self.bits))
        good = np.flatnonzero(norms)
        found = np.empty((len(good), self.bits))
        columns = np.ascontiguousarray(self._W.T, np.float64)
        represent_all(units[good], columns, found, _EXCHANGES * self.bits)
        a[good] = found
        return a

    def encode(self, vectors: NDArray[np.float32]) -> Codes:
        """Return the codes of the directions of (n, factors) finite vectors of any length."""
        self._checked(vectors)
        n = len(vectors)
        words = np.zeros((n, self.words), np.uint64)
        norms, lengths, objectives = np.empty((3, n), np.float32)
        for first in range(0, n, _CHUNK):
            part = slice(first, min(first + _CHUNK, n))
            units, norms[part] = directions(vectors[part])
            ones = self.represent(vectors[part]) >= 0
            padded = np.zeros((len(ones), 64 * self.words), np.bool_)
            padded[:, : self.bits] = ones
            packed = np.packbits(padded, axis=1, bitorder="little")
            words[part] = packed.view("<u8")
            images = np.where(ones, 1.0, -1.0) @ self._W.T.astype(np.float64)
            length = np.sqrt((images * images).sum(axis=1))
            lengths[part] = length
            along = np.maximum((units * images).sum(axis=1), 0)
            objectives[part] = np.divide(along, length, out=np.zeros_like(along), where=length > 0)
        return Codes(words, norms, lengths, objectives)
