"""Every coder by name, as in table 5.1 of Balu 2016.

lsh              signs of independent projections
lsh_frame        signs of the projections of a tight frame
anti_sparse      signs of the representation of least magnitude
qolsh            signs, then flips that bring the code nearer
qolsh_16         the same from 16 starts
optimal          the best of all codes, up to 16 bits

Optimal codes: of all 2^L the one that decodes nearest to the vector; what others are held to.

Time and memory double with every bit: 16 bits take about 5 us a vector and 8 factors, 1 MB.

Anti-sparse codes: the signs of the representation of least magnitude (Balu 2016, section 5.2).

    min max_j |a_j|  where  Wa = x,   b = sign(a)

All but d - 1 components of `a` are at the magnitude itself, so that signs tell more of it than of
W'x. The linear program is solved exactly (`research/kernels/least_magnitude.py`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from research.kernels import all_codes
from research.kernels.least_magnitude import represent_all
from stream_app.models.retrieval.qolsh_index import (
    Codes,
    Encoder,
    Frame,
    FrameCoder,
    draw_frame,
)

CODERS = ("lsh", "lsh_frame", "anti_sparse", "qolsh", "qolsh_16", "optimal")


def coder(
    name: str, factors: int, bits: int, flips: int = 10, seed: int = 1, frame: Frame = "equal_norm"
) -> FrameCoder:
    """Return the coder of that name; `flips` are of qoLSH alone, `frame` of all but LSH."""
    match name:
        case "lsh":
            return Encoder(factors, bits, 0, seed, "gaussian")
        case "lsh_frame":
            return Encoder(factors, bits, 0, seed, frame)
        case "anti_sparse":
            return AntiSparseCoder(factors, bits, seed, frame)
        case "qolsh" | "qolsh_16":
            return Encoder(factors, bits, flips, seed, frame, 16 if name == "qolsh_16" else 1)
        case "optimal":
            return ExhaustiveCoder(factors, bits, seed, frame)
    raise ValueError(f"coder {name!r}: use {', '.join(CODERS)}")


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


def signs_of(coder: FrameCoder, codes: Codes) -> NDArray[np.int8]:
    """Return the codes as (n, bits) of -1 and +1."""
    bits = np.unpackbits(
        codes.words.astype("<u8").view(np.uint8), axis=1, count=coder.bits, bitorder="little"
    )
    return (2 * bits.astype(np.int8) - 1).astype(np.int8)


def reconstruct(coder: FrameCoder, codes: Codes) -> NDArray[np.float64]:
    """Return the unit vectors x_hat, (n, factors), of the codes; zero where Wb = 0."""
    images = signs_of(coder, codes).astype(np.float64) @ coder._W.T.astype(np.float64)
    lengths = np.linalg.norm(images, axis=1, keepdims=True)
    units: NDArray[np.float64] = np.divide(
        images, lengths, out=np.zeros_like(images), where=lengths > 0
    )
    return units


def directions(
    vectors: NDArray[np.float32],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return x / |x|, (n, factors), zeros for a zero vector, and |x|, (n,)."""
    wide = vectors.astype(np.float64)
    norms = np.sqrt((wide * wide).sum(axis=1))
    units = np.divide(wide, norms[:, None], out=np.zeros_like(wide), where=norms[:, None] > 0)
    return units, norms
