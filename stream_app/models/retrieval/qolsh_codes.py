"""qoLSH: 256 bits that encode the direction of a vector (Balu 2016, chapter 5).

    x_hat = W b / |W b|       the direction that a code decodes to           (5.4)
    L(b)  = x . x_hat         increased by greedy flips; mean |x - x_hat|^2 = 2 - 2 mean L(b)

`flips=0` is plain sign coding (LSH). With `starts` n > 1 the greedy search also starts from n - 1
other codes, each with some of the least certain bits flipped, and the best code is kept: never
worse, n times the time (8 factors, 16 bits: mean error .0917 of one start, .0733 of 16, .0691 of
64, .0654 of the best code there is). With as many bits as factors, or fewer, the frame is
orthonormal and signs are optimal. A zero vector has no direction: it gets the code of all ones and
is flagged. A code reveals much about its vector: it is no protection.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.retrieval import qolsh, short_codes

Frame = Literal["equal_norm", "qr", "gaussian"]
_PROJECTIONS = 200
_LANES = 16
_MOST_STARTS = 65_536


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
    """Codes of n vectors: words (n, words) uint64; |x|, |Wb| and L(b), each (n,) float32."""

    words: NDArray[np.uint64]
    norms: NDArray[np.float32]
    lengths: NDArray[np.float32]
    objectives: NDArray[np.float32]

    @property
    def zero(self) -> NDArray[np.bool_]:
        """Which vectors were zero: their code carries no information."""
        zero: NDArray[np.bool_] = self.norms == 0
        return zero


@dataclass(frozen=True, eq=False)
class Encoder:
    """From vectors of `factors` components to codes of `bits` bits."""

    factors: int
    bits: int = 256
    flips: int = 10
    seed: int = 1
    frame: Frame = "equal_norm"
    starts: int = 1
    _W: NDArray[np.float32] = field(init=False, repr=False)
    _columns: NDArray[np.float32] = field(init=False, repr=False)
    _gram: NDArray[np.float32] = field(init=False, repr=False)
    _diagonal: NDArray[np.float32] = field(init=False, repr=False)
    _flat: tuple[NDArray[np.float32], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.factors <= 4096:
            raise ValueError(f"factors {self.factors}: use 1 to 4096")
        if not 1 <= self.bits <= 4096:
            raise ValueError(f"code bits {self.bits}: use 1 to 4096")
        if self.flips < 0:
            raise ValueError(f"flips {self.flips}: must not be negative")
        if not 1 <= self.starts <= min(_MOST_STARTS, 1 << min(self.bits, 63)):
            raise ValueError(f"starts {self.starts}: use 1 to {_MOST_STARTS}, and at most 2^bits")
        if self.frame not in ("equal_norm", "qr", "gaussian"):
            raise ValueError(f"frame {self.frame!r}: use equal_norm, qr or gaussian")
        frame = draw_frame(self.factors, self.bits, self.seed, self.frame)
        gram = frame.T @ frame
        object.__setattr__(self, "_W", frame.astype(np.float32))
        columns = np.zeros((self.bits, -(-self.factors // _LANES) * _LANES), np.float32)
        columns[:, : self.factors] = frame.T
        object.__setattr__(self, "_columns", columns)
        object.__setattr__(self, "_gram", gram.astype(np.float32))
        object.__setattr__(self, "_diagonal", np.ascontiguousarray(np.diag(gram), np.float32))
        padded = np.zeros((self.bits, -(-self.bits // _LANES) * _LANES), np.float32)
        padded[:, : self.bits] = gram
        flat = (self._W.ravel(), padded.ravel(), 4 * self._diagonal)
        object.__setattr__(self, "_flat", flat)

    @property
    def words(self) -> int:
        """Number of 64-bit words of a code; bits past `bits` are zero in every code."""
        return -(-self.bits // 64)

    def encode(self, vectors: NDArray[np.float32]) -> Codes:
        """Return the codes of the directions of (n, factors) finite vectors of any length."""
        if vectors.ndim != 2 or vectors.shape[1] != self.factors:
            raise ValueError(f"vectors of shape {vectors.shape}: use (n, {self.factors})")
        n = len(vectors)
        words = np.empty((n, self.words), np.uint64)
        norms, lengths, objectives = np.empty((3, n), np.float32)
        # Signs are the best code there is when the frame is orthonormal: no flip can help.
        best = self.bits <= self.factors and self.frame != "gaussian"
        search = (0, 1) if best else (self.flips, self.starts)
        given = np.ascontiguousarray(vectors, np.float32)
        results = (words, norms, lengths, objectives)
        if self.bits <= short_codes.MOST_BITS:
            short_codes.encode(given, *self._flat, *search, *results)
        else:
            tables = (self._W, self._columns, self._gram, self._diagonal)
            qolsh.encode(given, *tables, *search, *results)
        return Codes(words, norms, lengths, objectives)

    def project(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return W'y, (bits,), from which the cosine with any code is a signed sum."""
        return vector @ self._W

    def signs(self, codes: Codes) -> NDArray[np.int8]:
        """Return the codes as (n, bits) of -1 and +1."""
        bits = np.unpackbits(
            codes.words.astype("<u8").view(np.uint8), axis=1, count=self.bits, bitorder="little"
        )
        return (2 * bits.astype(np.int8) - 1).astype(np.int8)

    def reconstruct(self, codes: Codes) -> NDArray[np.float64]:
        """Return the unit vectors x_hat, (n, factors), of the codes; zero where Wb = 0."""
        images = self.signs(codes).astype(np.float64) @ self._W.T.astype(np.float64)
        lengths = np.linalg.norm(images, axis=1, keepdims=True)
        units: NDArray[np.float64] = np.divide(
            images, lengths, out=np.zeros_like(images), where=lengths > 0
        )
        return units
