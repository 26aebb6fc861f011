"""A copy of the co-ratings at a cut, from which another thread makes the symmetric tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.cooccurrence.co_rating_sums import (
    RATERS,
    SQUARES,
    STARS,
    VARIANCES,
    counted,
)
from stream_app.ranking.similarity.table import CoRatingTable


@dataclass(frozen=True, eq=False)
class CoRatingSnapshot:
    """The sums of n slots in use, in integers; unit: of a value, in stars.

    cells (n (n - 1) / 2, 2) and moments (n, 4): as in `kernels/cooccurrence/co_rating_sums.py`.
    """

    keys: NDArray[np.uint64]
    cells: NDArray[np.int64]
    moments: NDArray[np.int64]
    unit: float
    cut: int

    def table(self) -> CoRatingTable:
        """Return the sums in stars; at 2,048 items it takes tenths of a second.

        The mean variance of an item's noise is estimated from its reports, and 0 where the estimate
        is negative.
        """
        unit = self.unit
        raters = self.moments[:, RATERS]
        counts, differences, products = counted(self.cells)
        variance = self.moments[:, VARIANCES] * unit**2 / np.maximum(raters, 1)
        return CoRatingTable(
            version=self.cut,
            keys=self.keys,
            counts=self._square(counts, 1.0, 1, raters),
            differences=self._square(differences, unit, -1),
            products=self._square(products, unit**2, 1, self.moments[:, SQUARES]),
            sums=(self.moments[:, STARS] * unit).astype(np.float32),
            variance=np.maximum(variance, 0).astype(np.float32),
        )

    def _square(
        self,
        cells: NDArray[np.int64],
        unit: float,
        sign: int,
        diagonal: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float32]:
        """Return sums by cell as (n, n): [low, high] as they are, [high, low] times `sign`."""
        size = len(self.keys)
        square = np.zeros((size, size), np.float32)
        for high in range(1, size):
            start = high * (high - 1) // 2
            square[high, :high] = sign * cells[start : start + high] * unit
        square += sign * square.T
        if diagonal is not None:
            np.fill_diagonal(square, diagonal * unit)
        return square
