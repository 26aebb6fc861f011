"""The arithmetic of the gauges: how well the model predicts, against what, and what it leaks.

Prequential: every event is predicted first and learned afterwards. An event has a prediction t, the
report read as a rating (stars), and two unbiased numbers that its mechanism's channel gives,

    E[value | r] = r        E[square | r] = r^2        f_t(z) = square - 2 t value + t^2
    reported RMSE = sqrt(mean (t - stars)^2)           debiased RMSE = sqrt(mean f_t(z))

E[f_t(z) | r] = (r - t)^2, so the debiased error is that of the true ratings, which the server
never sees. A mean of f_t(z) may fall below zero by chance: too few events, and the RMSE is NaN.
Where a channel cannot be inverted, value and square are NaN and the event counts as reported only.

Leakage (S004 eq. 4.15): Gaussians fitted to the residuals of learned (tr) and held-out (te) events,

    KL = 1/2 (s_tr^2 / s_te^2 + (m_tr - m_te)^2 / s_te^2 - 1 + ln(s_te^2 / s_tr^2))   nats

It is a measurement of an average, not a bound: a low value proves nothing about one person's
rating. With n samples on each side a model that leaks nothing still shows about 2 / n nats.

Nothing here touches the learned state, reads a clock or does I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, nan, sqrt
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_app.kernels import scoring

Floats = NDArray[np.float64]
Residuals = Callable[
    [NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint8], NDArray[np.uint8]], Floats
]
"""(users, items, reports, mechanisms) -> the current model's error on each event, (n,)."""

FEWEST_SAMPLES = 30

T = TypeVar("T", bound=np.generic)


class Ring(Generic[T]):
    """The newest `capacity` values of a sequence, in no particular order."""

    def __init__(self, capacity: int, dtype: type[T]) -> None:
        if capacity < 1:
            raise ValueError(f"capacity {capacity}: a ring holds at least one value")
        self._values = np.zeros(capacity, dtype)
        self._added = 0

    def __len__(self) -> int:
        return min(self._added, len(self._values))

    def add(self, values: ArrayLike) -> None:
        """Add values, oldest first; whatever is older than `capacity` is forgotten."""
        capacity = len(self._values)
        newest = np.asarray(values)[-capacity:]
        self._added += np.size(values)
        first = (self._added - len(newest)) % capacity
        room = min(len(newest), capacity - first)
        self._values[first : first + room] = newest[:room]
        self._values[: len(newest) - room] = newest[room:]

    def values(self) -> NDArray[T]:
        """Return what is held; the caller copies what it wants to keep."""
        return self._values[: len(self)]


class Drift:
    """Prequential error over everything and over the newest `recent` events."""

    def __init__(self, recent: int = 10_000) -> None:
        self._counts = np.zeros(2)
        self._sums = np.zeros(2)
        self._recent = (Ring(recent, np.float64), Ring(recent, np.float64))

    def add(
        self, predicted: ArrayLike, stars: ArrayLike, values: ArrayLike, squares: ArrayLike
    ) -> None:
        """Score predictions, (n,) each, that were made before their events were learned."""
        t = np.asarray(predicted, np.float64)
        reported = (t - np.asarray(stars, np.float64)) ** 2
        debiased = np.asarray(squares, np.float64) - 2 * t * np.asarray(values, np.float64) + t * t
        self.add_errors(reported, debiased)

    def add_errors(self, reported: Floats, debiased: Floats) -> None:
        """Enter squared errors, (n,) each; a debiased one that is NaN is unknown."""
        unknown = np.isnan(debiased)
        debiased = debiased[~unknown] if unknown.any() else debiased
        for kind, errors in enumerate((reported, debiased)):
            self._counts[kind] += len(errors)
            self._sums[kind] += errors.sum()
            self._recent[kind].add(errors)

    def rmse_reported(self, window: Literal["recent", "all"] = "recent") -> float:
        """Return the RMSE against the reports; NaN before the first event."""
        return self._rmse(0, window)

    def rmse_debiased(self, window: Literal["recent", "all"] = "recent") -> float:
        """Return the RMSE against the true ratings as the channel reveals it; NaN where unknown."""
        return self._rmse(1, window)

    def _rmse(self, kind: int, window: str) -> float:
        recent = self._recent[kind].values()
        if not len(recent):
            return nan
        mean = float(self._sums[kind] / self._counts[kind] if window == "all" else np.mean(recent))
        return sqrt(mean) if mean >= 0 else nan


class Baseline:
    """Running item means: what a prediction without any taste achieves on the same events.

    The mean of an item seen n times is shrunken towards the mean of all by k pseudo-events,

        mean_i = (sum_i + k mean) / (n_i + k)        k = Var(values) / spread^2

    so that noisier reports need more of them. `spread` is the standard deviation of the items'
    true means in stars; predictions stay in low .. high, and are `(low + high) / 2` at first.
    """

    def __init__(
        self, low: float = 1.0, high: float = 5.0, spread: float = 0.55, recent: int = 10_000
    ) -> None:
        if not low < high or not spread > 0:
            raise ValueError(f"low {low}, high {high}, spread {spread}: low < high and spread > 0")
        self.low, self.high, self.spread = low, high, spread
        self.drift = Drift(recent)
        self._sums = np.zeros(0)
        self._counts = np.zeros(0)
        self._total = np.zeros(3)  # events, sum of the values, sum of their squares

    def predict(self, rows: NDArray[np.int64]) -> Floats:
        """Return the current mean of the items at `rows` (n,), each clipped to low .. high."""
        events, total, squares = self._total
        if not events:
            return np.full(len(rows), (self.low + self.high) / 2)
        self._grow(rows)
        mean = total / events
        pseudo = max(squares / events - mean**2, 1e-9) / self.spread**2
        means = (self._sums[rows] + pseudo * mean) / (self._counts[rows] + pseudo)
        return np.clip(means, self.low, self.high)

    def add(
        self, rows: NDArray[np.int64], stars: ArrayLike, values: ArrayLike, squares: ArrayLike
    ) -> None:
        """Predict a batch (n,) from what came before it, score that, then learn its values."""
        self.drift.add(self.predict(rows), stars, values, squares)
        self.learn(rows, values)

    def learn(self, rows: NDArray[np.int64], values: ArrayLike) -> None:
        """Learn unbiased values (n,) of items; a NaN is unknown and left out."""
        self._grow(rows)
        told = np.asarray(values, np.float64)
        unknown = np.isnan(told)
        if unknown.any():
            rows, told = rows[~unknown], told[~unknown]
        np.add.at(self._sums, rows, told)
        np.add.at(self._counts, rows, 1.0)
        self._total += (len(told), told.sum(), (told * told).sum())

    def _grow(self, rows: NDArray[np.int64]) -> None:
        needed = int(rows.max()) + 1 if len(rows) else 0
        if needed > len(self._sums):
            more = max(needed, 2 * len(self._sums)) - len(self._sums)
            self._sums = np.concatenate((self._sums, np.zeros(more)))
            self._counts = np.concatenate((self._counts, np.zeros(more)))


class Leakage:
    """Held-out events beside learned ones of the same age, kept to be predicted again.

    Every held-out event is paired with the next learned event that is still free, so both rings
    advance together, and they hold the same events however the stream was cut into batches.
    """

    def __init__(self, capacity: int = 4096) -> None:
        columns: tuple[type[Any], ...] = (np.uint64, np.uint64, np.uint8, np.uint8)
        self._held_out = [Ring(capacity, dtype) for dtype in columns]
        self._learned = [Ring(capacity, dtype) for dtype in columns]
        self._owed = 0  # held-out events that still wait for a learned one

    @property
    def samples(self) -> int:
        """Number of events on the smaller side."""
        return min(len(self._held_out[0]), len(self._learned[0]))

    def add(
        self,
        users: NDArray[np.uint64],
        items: NDArray[np.uint64],
        reports: NDArray[np.uint8],
        mechanisms: NDArray[np.uint8],
        held_out: NDArray[np.bool_],
    ) -> None:
        """Remember events, (n,) each; `held_out` marks those that were never learned."""
        if not len(held_out):
            return
        chosen = np.empty(len(held_out), np.bool_)
        self._owed = int(scoring.pair(held_out, self._owed, chosen))
        held_rows, learned_rows = np.flatnonzero(held_out), np.flatnonzero(chosen)
        columns: tuple[NDArray[Any], ...] = (users, items, reports, mechanisms)
        for held, learned, column in zip(self._held_out, self._learned, columns, strict=True):
            held.add(column[held_rows])
            learned.add(column[learned_rows])

    def measure(self, residuals: Residuals) -> float:
        """Predict both sides with the current model and return KL in nats; NaN where unknown.

        Unknown means fewer than `FEWEST_SAMPLES` events on a side, or residuals without variance.
        """
        if self.samples < FEWEST_SAMPLES:
            return nan
        learned = residuals(*(ring.values() for ring in self._learned))
        held_out = residuals(*(ring.values() for ring in self._held_out))
        return gaussian_kl(*_moments(learned), *_moments(held_out))


def _moments(residuals: Floats) -> tuple[float, float]:
    """Return mean and standard deviation; exactly 0 where all are equal, which rounding hides."""
    if not np.isfinite(residuals).all():
        return nan, nan
    alike = residuals.max() == residuals.min()
    return float(np.mean(residuals)), 0.0 if alike else float(np.std(residuals))


def gaussian_kl(mean: float, deviation: float, other_mean: float, other_deviation: float) -> float:
    """Return KL(N(mean, deviation) || N(other_mean, other_deviation)); NaN without any width."""
    if not (deviation > 0 and other_deviation > 0):
        return nan
    ratio = (deviation / other_deviation) ** 2
    shift = ((mean - other_mean) / other_deviation) ** 2
    return 0.5 * (ratio + shift - 1 - log(ratio))
