"""Products of a share with the ternary rows R, and with the weights of a point.

Both are matrix products of small integers in floating point, in which every partial sum is exact:
`R x` of 12-bit limbs below 2^24 in single precision, weights of 16-bit limbs below 2^53 in double.
R is made and used a part at a time, which stays in the cache of a processor.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.verified import field
from stream_app.campaigns.verified.field import LIMB, LIMBS, P, Residues
from stream_app.campaigns.verified.layout import ROWS

_BYTES = 2 * ROWS // 8  # of random bits a column
_COLUMNS, _ROW_LIMB, _ROW_LIMBS = 1024, 12, 4
_SMALL = 4  # points, whose weights Python's integers are faster for

assert _COLUMNS << _ROW_LIMB < 1 << 24


def row_bytes(size: int) -> int:
    """Return how many random bytes R takes."""
    return size * _BYTES


def products(bits: bytes, share: Residues) -> Residues:
    """Return R x (ROWS,) of a share (size,); R (size, ROWS) of 32 uniform bytes a column: an entry
    is the difference of two bits."""
    columns, limbs = np.frombuffer(bits, np.uint8).reshape(-1, _BYTES), _row_limbs(share)
    differences = np.empty((_COLUMNS, ROWS), np.int8)
    ternary, sums = differences.astype(np.float32), np.zeros((ROWS, _ROW_LIMBS), np.int64)
    for start in range(0, len(share), _COLUMNS):
        each = np.unpackbits(columns[start : start + _COLUMNS], axis=1).view(np.int8)
        part = slice(0, len(each))
        np.subtract(each[:, :ROWS], each[:, ROWS:], out=differences[part])
        ternary[part] = differences[part]
        sums += (ternary[part].T @ limbs[start : start + _COLUMNS]).astype(np.int64)
    return field.joined(sums.T, _ROW_LIMB)


def _row_limbs(share: Residues) -> NDArray[np.float32]:
    found, lowest = np.empty((len(share), _ROW_LIMBS), np.float32), np.uint64((1 << _ROW_LIMB) - 1)
    for n in range(_ROW_LIMBS):
        found[:, n] = share >> np.uint64(_ROW_LIMB * n) & lowest
    return found


def tensor(points: Residues) -> Residues:
    """Return the weights (2, 2^m) of points (2, m): products of 1 - r or r, the first point for
    the highest bit of the place."""
    count = points.shape[1]
    if count > _SMALL:
        first, second = tensor(points[:, : count // 2]), tensor(points[:, count // 2 :])
        return field.times(first[:, :, None], second[:, None]).reshape(2, -1)
    weights = [(1, 0)]
    for x, y in points.T.tolist():
        at = [((a * x - b * y) % P, (a * y + b * x) % P) for a, b in weights]
        both = zip(weights, at, strict=True)
        weights = [w for (a, b), (c, d) in both for w in (((a - c) % P, (b - d) % P), (c, d))]
    return np.ascontiguousarray(np.array(weights, np.uint64).T)


class Point:
    """The weights of points (2, m) on 2^m places, as those of the upper and the lower bits."""

    def __init__(self, points: Residues) -> None:
        upper = points.shape[1] // 2
        self._lower = points.shape[1] - upper
        self._first, self._second = tensor(points[:, :upper]), tensor(points[:, upper:])

    def at(self, places: NDArray[np.intp]) -> Residues:
        """Return the weights (2, n) of places (n,)."""
        first = self._first.take(places >> self._lower, axis=1)
        return field.times(first, self._second.take(places & (1 << self._lower) - 1, axis=1))

    def sum(self, values: Residues) -> Residues:
        """Return the sum of values (2^m,) with their weights, an element (2,)."""
        first, second = self._first, self._second
        table = field.limbs(values).reshape(-1, second.shape[1])
        weights = field.limbs(second).reshape(-1, second.shape[1])
        # By limb of the value and upper bits, by limb of the weight: each below 2^(32 + lower).
        sums = (table @ weights.T).reshape(LIMBS, first.shape[1], LIMBS, 2)
        degrees = field.of_degrees(sums.transpose(0, 2, 3, 1))
        return field.total(field.times(field.joined(degrees, LIMB), first))
