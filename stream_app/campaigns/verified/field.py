"""Arithmetic modulo p = 2^48 - 65, and in the field of p^2 elements, on arrays.

    residues       uint64 below p; on the wire 6 bytes, little-endian
    F_p^2          a + b i with i^2 = -1, which p = 3 modulo 4 allows: (2, n) uint64

Products are made of 24-bit limbs, so that nothing needs more than 64 bits. A sum of up to 2^16
residues fits 64 bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

P = 2**48 - 65
ELEMENT_BYTES = 6
LIMB, LIMBS = 16, 3  # bits of a limb, limbs of a residue
_MANY = 2048  # products, of which a matrix product is faster
_FOLD = np.uint64(65)  # 2^48 modulo p
_P, _LOW, _LIMB = np.uint64(P), np.uint64(2**48 - 1), np.uint64(2**24 - 1)
_ABOVE = np.uint64(P << 8)  # 0 modulo p, and above every product that is not reduced
_24, _48 = np.uint64(24), np.uint64(48)

Residues = NDArray[np.uint64]


def reduced(values: Residues) -> Residues:
    """Return any 64-bit integers modulo p."""
    values = (values & _LOW) + (values >> _48) * _FOLD
    return np.asarray(np.minimum(values, np.subtract(values, _P)))  # below 2p: one wraps around


def residues(integers: NDArray[np.integer]) -> Residues:
    """Return signed integers of less than 48 bits modulo p."""
    signed = integers.astype(np.int64)
    return np.where(signed < 0, signed + P, signed).astype(np.uint64)


def centered(values: Residues) -> NDArray[np.int64]:
    """Return residues as the integers nearest to 0."""
    signed = values.astype(np.int64)
    return np.where(signed > P // 2, signed - P, signed)


def add(a: Residues | np.uint64, b: Residues | np.uint64) -> Residues:
    """Return a + b."""
    found = np.add(a, b)
    return np.asarray(np.minimum(found, np.subtract(found, _P)))


def sub(a: Residues | np.uint64, b: Residues | np.uint64) -> Residues:
    """Return a - b."""
    rest = np.subtract(a, b)
    return np.asarray(np.minimum(rest, np.add(rest, _P)))


def mul(a: Residues, b: Residues | np.uint64) -> Residues:
    """Return a b."""
    return reduced(_product(a, b))


def _product(a: Residues, b: Residues | np.uint64) -> Residues:
    """Return a b below 2^55, not reduced; in place, where a pass over memory is what costs."""
    a1, a0, b1, b0 = a >> _24, a & _LIMB, b >> _24, b & _LIMB
    middle = a0 * b1
    middle += a1 * b0
    high = a1 * b1
    high += middle >> _24
    high *= _FOLD
    middle &= _LIMB
    middle <<= _24
    high += middle
    high += a0 * b0
    return high


def total(values: Residues) -> Residues:
    """Return the sum along the last axis, of at most 2^16 residues."""
    return reduced(values.sum(axis=-1, dtype=np.uint64))


def times(a: Residues, b: Residues) -> Residues:
    """Return the products of elements of F_p^2, (2, ...) each."""
    made = _product(a[:, None], b[None])
    found = np.stack((made[0, 0] + (_ABOVE - made[1, 1]), made[0, 1] + made[1, 0]))
    return reduced(found)


def joined(parts: NDArray[np.integer], bits: int) -> Residues:
    """Return the sums of 2^(bits n) times part n, of integers (parts, ...)."""
    powers = np.array([pow(2, bits * n, P) for n in range(len(parts))], np.uint64)
    made = mul((parts % P).astype(np.uint64), powers.reshape(-1, *[1] * (parts.ndim - 1)))
    return reduced(made.sum(axis=0, dtype=np.uint64))


def inner(a: Residues, b: Residues) -> Residues:
    """Return the sums of products of elements of F_p^2 along the last axis, (2, ..., n) each: of
    many a matrix product of 16-bit limbs, in which every sum is below 2^32 n and exact."""
    if a.shape[-1] < _MANY:
        return total(times(a, b))
    first, second = (limbs(each).reshape(2 * LIMBS, -1, each.shape[-1]) for each in (a, b))
    sums = first.swapaxes(0, 1) @ second.transpose(1, 2, 0)
    by_limb = sums.reshape(-1, LIMBS, 2, LIMBS, 2).transpose(1, 3, 2, 4, 0)
    parts = joined(of_degrees(by_limb), LIMB)
    real, rest = sub(parts[0, 0], parts[1, 1]), add(parts[0, 1], parts[1, 0])
    return np.stack((real, rest)).reshape(2, *a.shape[1:-1])


def limbs(values: Residues) -> NDArray[np.float64]:
    """Return the limbs (LIMBS, ...) of residues."""
    parts = np.ascontiguousarray(values, "<u8").view("<u2").reshape(*values.shape, 4)
    return np.stack([parts[..., n] for n in range(LIMBS)]).astype(np.float64)


def of_degrees(products: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the sums (2 LIMBS - 1, ...) of products (LIMBS, LIMBS, ...) of limbs, by the sum of
    their places."""
    found = np.zeros((2 * LIMBS - 1, *products.shape[2:]), np.int64)
    for first in range(LIMBS):
        found[first : first + LIMBS] += products[first].astype(np.int64)
    return found


def encode(values: Residues) -> bytes:
    """Return residues (...) as 6 bytes each, in order."""
    return np.ascontiguousarray(values, "<u8").view(np.uint8).reshape(-1, 8)[:, :6].tobytes()


def decoded(data: bytes) -> Residues:
    """Return the integers (n,) of 6 bytes each, which may be p or more; ValueError for another
    length."""
    wide = np.zeros((len(data) // ELEMENT_BYTES, 8), np.uint8)
    wide[:, :6] = np.frombuffer(data, np.uint8).reshape(-1, ELEMENT_BYTES)
    return wide.view("<u8").ravel().astype(np.uint64, copy=False)


def decode(data: bytes) -> Residues | None:
    """Return the residues (n,) of 6 bytes each; None where one is not below p."""
    found = decoded(data)
    return found if bool((found < _P).all()) else None


def uniform(words: Residues) -> Residues:
    """Return the low 48 bits of words that are below p, in order: uniform where words are."""
    low = words & _LOW
    return low[low < _P]
