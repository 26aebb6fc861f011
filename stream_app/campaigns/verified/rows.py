"""Products of a share with the ternary rows R, and with the weights of a point.

Both are matrix products of small integers in floating point, in which every partial sum is exact:
`R x` of bytes below 2^24 in single precision, weights of 16-bit limbs below 2^53 in double.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.verified import field
from stream_app.campaigns.verified.field import Residues
from stream_app.campaigns.verified.layout import ROWS

_BYTES = 2 * ROWS // 8  # of random bits a column
_LIMBS = 3


def ternary(bits: bytes) -> NDArray[np.float32]:
    """Return R (size, ROWS) of 32 uniform bytes a column: the difference of two bits an entry."""
    found = np.unpackbits(np.frombuffer(bits, np.uint8).reshape(-1, 2, _BYTES // 2), axis=2)
    signed = found.view(np.int8)
    return (signed[:, 0] - signed[:, 1]).astype(np.float32)


def row_bytes(size: int) -> int:
    """Return how many random bytes R takes."""
    return size * _BYTES


def products(rows: NDArray[np.float32], share: Residues) -> Residues:
    """Return R x (ROWS,) of a share (size,)."""
    limbs = np.ascontiguousarray(share, "<u8").view(np.uint8).reshape(-1, 8)[:, :6]
    sums = field.residues((rows.T @ limbs.astype(np.float32)).astype(np.int64))
    found = np.zeros(ROWS, np.uint64)
    for limb in reversed(range(6)):
        found = field.add(field.mul(found, np.uint64(256)), sums[:, limb])
    return found


def tensor(points: Residues) -> Residues:
    """Return the weights (2, 2^m) of points (2, m): products of 1 - r or r, the first point for
    the highest bit of the place."""
    count = points.shape[1]
    if count > 1:
        first, second = tensor(points[:, : count // 2]), tensor(points[:, count // 2 :])
        return field.times(first[:, :, None], second[:, None]).reshape(2, -1)
    one = np.array([[1], [0]], np.uint64)
    return np.concatenate((field.sub(one, points), points), axis=1) if count else one


class Point:
    """The weights of points (2, m) on 2^m places, as those of the upper and the lower bits."""

    def __init__(self, points: Residues) -> None:
        upper = points.shape[1] // 2
        self._lower = points.shape[1] - upper
        self._first, self._second = tensor(points[:, :upper]), tensor(points[:, upper:])

    def at(self, places: NDArray[np.intp]) -> Residues:
        """Return the weights (2, n) of places (n,)."""
        low = (1 << self._lower) - 1
        return field.times(self._first[:, places >> self._lower], self._second[:, places & low])

    def sum(self, values: Residues) -> Residues:
        """Return the sum of values (2^m,) with their weights, an element (2,)."""
        first, second = self._first, self._second
        table = _limbs(values).reshape(first.shape[1], second.shape[1], _LIMBS)
        weights = _limbs(second).reshape(2, second.shape[1], _LIMBS)
        # (2, 2^upper, limbs of the values, limbs of the weights), each below 2^(32 + lower)
        sums = np.einsum("ija,cjb->ciab", table, weights, optimize=True).astype(np.uint64)
        found = np.zeros(first.shape, np.uint64)
        for degree in reversed(range(2 * _LIMBS - 1)):
            pairs = [(a, degree - a) for a in range(_LIMBS) if 0 <= degree - a < _LIMBS]
            part = np.add.reduce([sums[..., a, b] for a, b in pairs])
            found = field.add(field.mul(found, np.uint64(1 << 16)), field.reduced(part))
        return field.total(field.times(found, first))


def _limbs(values: Residues) -> NDArray[np.float64]:
    parts = np.ascontiguousarray(values, "<u8").view("<u2").reshape(*values.shape, 4)
    return parts[..., :_LIMBS].astype(np.float64)
