"""Baseline predictors: the error of item means, without personal taste, on the same events.

The mean of an item with n events is shrunk towards the mean of all by k pseudo-events,

    mean_i = (sum_i + k mean) / (n_i + k)        k = Var(values) / spread^2

so that noisier reports need more events. Where presence is protected, n_i is the sum of the
weights, and the variance is that of value - mean * weight, for each unit of weight.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_app.kernels.factorization import error_scores
from stream_app.kernels.instrumentation import timed
from stream_app.monitoring.prequential_error import Floats, PrequentialError

_EVEN = np.empty(0)  # weights of 1 each


class ItemMeanBaseline:
    """Running item means.

    `spread` is the standard deviation of the items' true means in stars; predictions stay in
    low .. high, and are `(low + high) / 2` at first.
    """

    def __init__(
        self, low: float = 1.0, high: float = 5.0, spread: float = 0.55, recent: int = 10_000
    ) -> None:
        if not low < high or not spread > 0:
            raise ValueError(f"low {low}, high {high}, spread {spread}: low < high and spread > 0")
        self.low, self.high, self.spread = low, high, spread
        self.error = PrequentialError(recent)
        self._sums = np.zeros(0)
        self._counts = np.zeros(0)
        self._total = np.zeros(2)  # sum of the weights, of the values
        self._squares = np.zeros(3)  # sum of value^2, of value * weight, of weight^2

    def predict(self, rows: NDArray[np.int64]) -> Floats:
        """Return the current mean of the items at `rows` (n,), each clipped to low .. high; that
        of all where a row is below 0."""
        weights, total = self._total
        if not weights > 0:
            return np.full(len(rows), (self.low + self.high) / 2)
        self._grow(rows)
        mean = total / weights
        variance = self._squares @ (1, -2 * mean, mean**2) / weights
        pseudo = max(float(variance), 1e-9) / self.spread**2
        means = np.empty(len(rows))
        timed(
            error_scores.item_means,
            self._sums,
            self._counts,
            rows,
            mean,
            pseudo,
            self.low,
            self.high,
            means,
        )
        return means

    def add(
        self, rows: NDArray[np.int64], stars: ArrayLike, values: ArrayLike, squares: ArrayLike
    ) -> None:
        """Predict a batch (n,) from the events before it, score that, then learn its values."""
        self.error.add(self.predict(rows), stars, values, squares)
        self.learn(rows, values)

    def learn(
        self, rows: NDArray[np.int64], values: ArrayLike, weights: ArrayLike | None = None
    ) -> None:
        """Learn unbiased values (n,) of items; a NaN is unknown and left out, and a row below 0
        counts among all items alone."""
        self._grow(rows)
        given = (values, _EVEN if weights is None else weights)
        columns = (np.require(each, np.float64, ["C", "W"]) for each in given)
        timed(
            error_scores.learn_means,
            self._sums,
            self._counts,
            rows,
            *columns,
            self._total,
            self._squares,
        )

    @property
    def memory_bytes(self) -> int:
        """Bytes held of the items."""
        return self._sums.nbytes + self._counts.nbytes

    def forget(self, rows: NDArray[np.int64]) -> None:
        """Forget the means of rows (m,)."""
        known = rows[rows < len(self._sums)]
        self._sums[known] = self._counts[known] = 0

    def _grow(self, rows: NDArray[np.int64]) -> None:
        needed = int(rows.max(initial=0)) + 1
        if needed > len(self._sums):
            more = max(needed, 2 * len(self._sums)) - len(self._sums)
            self._sums = np.concatenate((self._sums, np.zeros(more)))
            self._counts = np.concatenate((self._counts, np.zeros(more)))
