"""Frames, codes, and what every coder does with them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

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
