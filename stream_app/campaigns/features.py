"""Public features of items as numbers: the same bytes on every machine, a device's among them.

    columns   1 for each genre;  the year z in standard deviations from the mean of the known
              years, at most 3 of them, 0 where it is unknown;  z^2
    C         covariance of the columns over the items;  C + .1 I = L L'  (Cholesky)
    x         L^-1 (column - mean), so of unit covariance but for what few items have

Columns are multiples of 1/4096 and their sums are integers, so no order of addition matters; what
follows is arithmetic element by element, with no BLAS. A ridge on x does not depend on which root
of C + .1 I is taken.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MOST_GENRES = 32
RARE = 0.1  # added to a variance: what few items have does not become large
_UNIT = 64  # of z; of a column its square
_SPAN = 3 * _UNIT

Floats = NDArray[np.float64]


Described = Sequence[tuple[Sequence[str], int | None]]
"""Genres and year of each item, in the order of the items."""


def features_of(described: Described) -> Floats:
    """Return the features (items, genres + 2) of items with these genres and years.

    Of more than `MOST_GENRES` genres those of most items are kept, the first by name of those with
    as many; their columns are in the order of the names.
    """
    whole = _whole(described)
    count, width = whole.shape
    scale = _UNIT * _UNIT
    sums = [int(each) for each in whole.sum(axis=0)]
    products = [[int(each) for each in row] for row in whole.T @ whole]
    covariance = [
        [
            (count * products[j][k] - sums[j] * sums[k]) / (count * scale) ** 2
            + (RARE if j == k else 0.0)
            for k in range(width)
        ]
        for j in range(width)
    ]
    root = _cholesky(covariance)
    found = np.empty((count, width))
    for j in range(width):
        column = whole[:, j] / float(scale) - sums[j] / (count * scale)
        for k in range(j):
            column = column - root[j][k] * found[:, k]
        found[:, j] = column / root[j][j]
    return found


def _whole(described: Described) -> NDArray[np.int64]:
    """Return the columns in units of 1 / 4096."""
    counts = Counter(genre for genres, _ in described for genre in set(genres))
    kept = sorted(counts, key=lambda genre: (-counts[genre], genre))[:MOST_GENRES]
    place = {genre: number for number, genre in enumerate(sorted(kept))}
    flags = np.zeros((len(described), len(place)), np.int64)
    for number, (genres, _) in enumerate(described):
        flags[number, [place[genre] for genre in genres if genre in place]] = _UNIT * _UNIT
    z = _standardised(np.array([year or 0 for _, year in described], np.int64))
    return np.column_stack([flags, z * _UNIT, z * z])


def _standardised(years: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return z in units of 1 / 64, in integers (items,)."""
    known = years > 0
    count, total = int(known.sum()), int(years.sum())
    spread = math.isqrt(count * int((years * years).sum()) - total * total)
    if not spread:
        return np.zeros_like(years)
    z = ((years * count - total) * _UNIT + spread // 2) // spread
    return np.where(known, np.clip(z, -_SPAN, _SPAN), 0)


def _cholesky(rows: list[list[float]]) -> list[list[float]]:
    root = [[0.0] * len(rows) for _ in rows]
    for j, row in enumerate(rows):
        for k in range(j + 1):
            left = row[k]
            for i in range(k):
                left -= root[j][i] * root[k][i]
            root[j][k] = math.sqrt(left) if j == k else left / root[k][k]
    return root
