"""The arithmetic of the gauges: how well the model predicts, against what, and what it leaks.

Prequential: every event is predicted first and learned afterwards. An event has a prediction t, the
report read as a rating (stars), and two unbiased numbers that its mechanism's channel gives,

    E[value | r] = r        E[square | r] = r^2        f_t(z) = square - 2 t value + t^2 weight
    reported RMSE = sqrt(mean (t - stars)^2)           debiased RMSE = sqrt(sum f_t(z) / sum weight)

E[f_t(z) | r] = (r - t)^2, so the debiased error is that of the true ratings, which the server
never sees. Weight is 1 where presence is public. Where it is protected E[weight] is 1 for a cell
with a rating and 0, as E[f_t(z)] is, for one without; every cell of an item that was known before
is scored, the ones that say nothing too, so fakes cancel and the quotient is again the error on
true ratings alone. (t must not depend on the cell's own report. It does in one small way: a
record's priors are computed from the whole record, and cells of one record are learned one after
the other.) A mean of f_t(z) may fall below zero by chance: too few events, and the RMSE is NaN.
Where a channel cannot be inverted, value and square are NaN and the event counts as reported only;
its log-loss,

    -ln P(z | t, channel)   nats a report,   beside that of all levels equally likely,

takes the place of the debiased error. Only the distance of the two curves says something of taste:
most of either is the channel's own noise.

Leakage (S004 eq. 4.15): Gaussians fitted to the residuals of learned (tr) and held-out (te) events,

    KL = 1/2 (s_tr^2 / s_te^2 + (m_tr - m_te)^2 / s_te^2 - 1 + ln(s_te^2 / s_tr^2))   nats

It is a measurement of an average, not a bound: a low value proves nothing about one person's
rating. With n samples on each side a model that leaks nothing still shows about 2 / n nats.

Nothing here touches the learned state, reads a clock or does I/O. One file a little past the usual
length: the four numbers are read beside each other.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, nan, sqrt
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_app.kernels.factorization import error_scores

Floats = NDArray[np.float64]
Residuals = Callable[
    [
        NDArray[np.uint64],
        NDArray[np.uint64],
        NDArray[np.uint8],
        NDArray[np.uint16],
        NDArray[np.float32],
    ],
    Floats,
]
"""(users, items, reports, channels, priors) -> the current model's error on each event, (n,)."""

FEWEST_SAMPLES = 30

Window = Literal["recent", "all"]
Predictor = Literal["model", "blank"]
PREDICTORS: tuple[Predictor, ...] = ("model", "blank")

T = TypeVar("T", bound=np.generic)


class RingBuffer(Generic[T]):
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


class PrequentialError:
    """Prequential error over everything and over the newest `recent` events."""

    def __init__(self, recent: int = 10_000) -> None:
        self._sums = np.zeros((2, 2))  # reported, debiased; errors, weights
        self._recent = tuple(
            tuple(RingBuffer(recent, np.float64) for _ in range(2)) for _ in range(2)
        )

    def add(
        self, predicted: ArrayLike, stars: ArrayLike, values: ArrayLike, squares: ArrayLike
    ) -> None:
        """Score predictions, (n,) each, that were made before their events were learned."""
        t = np.asarray(predicted, np.float64)
        reported = (t - np.asarray(stars, np.float64)) ** 2
        debiased = np.asarray(squares, np.float64) - 2 * t * np.asarray(values, np.float64) + t * t
        self.add_errors(reported, debiased)

    def add_errors(self, reported: Floats, debiased: Floats, weights: Floats | None = None) -> None:
        """Enter squared errors, (n,) each; a NaN is unknown. Weights of the debiased: None, all 1.

        With weights some reports may say nothing; their reported error is NaN.
        """
        for kind, errors in enumerate((reported, debiased)):
            weighed = weights if kind else None
            if kind or weights is not None:
                known = ~np.isnan(errors)
                if not known.all():
                    errors = errors[known]
                    weighed = None if weighed is None else weighed[known]
            each = np.broadcast_to(1.0, len(errors)) if weighed is None else weighed
            self._sums[kind] += errors.sum(), len(errors) if weighed is None else each.sum()
            self._recent[kind][0].add(errors)
            self._recent[kind][1].add(each)

    def rmse_reported(self, window: Window = "recent") -> float:
        """Return the RMSE against the reports; NaN before the first event."""
        return self._rmse(0, window)

    def rmse_debiased(self, window: Window = "recent") -> float:
        """Return the RMSE against the true ratings as the channel reveals it; NaN where unknown."""
        return self._rmse(1, window)

    def _rmse(self, kind: int, window: str) -> float:
        errors, weights = self._sums[kind]
        if window != "all":
            errors, weights = (ring.values().sum() for ring in self._recent[kind])
        return sqrt(errors / weights) if weights > 0 and errors >= 0 else nan


class LogLoss:
    """Mean of -ln P(report) over everything and over the newest `recent`, of two predictors."""

    def __init__(self, recent: int = 10_000) -> None:
        self._count = 0
        self._sums = np.zeros(2)
        self._recent = (RingBuffer(recent, np.float64), RingBuffer(recent, np.float64))

    def add(self, chance: Floats, blank: Floats) -> None:
        """Enter the probabilities (n,) of reports: as foreseen, and with every level as likely."""
        self._count += len(chance)
        for kind, probabilities in enumerate((chance, blank)):
            nats = -np.log(np.maximum(probabilities, 1e-300))
            self._sums[kind] += nats.sum()
            self._recent[kind].add(nats)

    def nats(self, predictor: Predictor, window: Window = "recent") -> float:
        """Return the mean in nats; NaN before the first report."""
        if not self._count:
            return nan
        kind = PREDICTORS.index(predictor)
        recent = float(self._recent[kind].values().mean())
        return float(self._sums[kind] / self._count) if window == "all" else recent


class ItemMeanBaseline:
    """Running item means: what a prediction without any taste achieves on the same events.

    The mean of an item seen n times is shrunken towards the mean of all by k pseudo-events,

        mean_i = (sum_i + k mean) / (n_i + k)        k = Var(values) / spread^2

    so that noisier reports need more of them. Where presence is protected, n_i is the sum of the
    weights, and what varies is value - mean * weight, for each unit of weight. `spread` is the
    standard deviation of the items' true means in stars; predictions stay in low .. high, and are
    `(low + high) / 2` at first.
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
        """Return the current mean of the items at `rows` (n,), each clipped to low .. high."""
        weights, total = self._total
        if not weights > 0:
            return np.full(len(rows), (self.low + self.high) / 2)
        self._grow(rows)
        mean = total / weights
        varies = self._squares @ (1, -2 * mean, mean**2) / weights
        pseudo = max(float(varies), 1e-9) / self.spread**2
        counts = self._counts[rows]
        # The same as above; a sum of weights may by chance be below 0, and then counts for nothing.
        means = mean + (self._sums[rows] - mean * counts) / (np.maximum(counts, 0) + pseudo)
        return np.clip(means, self.low, self.high)

    def add(
        self, rows: NDArray[np.int64], stars: ArrayLike, values: ArrayLike, squares: ArrayLike
    ) -> None:
        """Predict a batch (n,) from what came before it, score that, then learn its values."""
        self.error.add(self.predict(rows), stars, values, squares)
        self.learn(rows, values)

    def learn(
        self, rows: NDArray[np.int64], values: ArrayLike, weights: ArrayLike | None = None
    ) -> None:
        """Learn unbiased values (n,) of items; a NaN is unknown and left out."""
        self._grow(rows)
        told = np.asarray(values, np.float64)
        of = np.broadcast_to(1.0, len(told)) if weights is None else np.asarray(weights)
        unknown = np.isnan(told)
        if unknown.any():
            rows, told, of = rows[~unknown], told[~unknown], of[~unknown]
        np.add.at(self._sums, rows, told)
        np.add.at(self._counts, rows, of)
        self._total += of.sum(), told.sum()
        # Not a dot product: its threads would spin on while the next batch is learned.
        self._squares += (told * told).sum(), (told * of).sum(), (of * of).sum()

    def _grow(self, rows: NDArray[np.int64]) -> None:
        needed = int(rows.max()) + 1 if len(rows) else 0
        if needed > len(self._sums):
            more = max(needed, 2 * len(self._sums)) - len(self._sums)
            self._sums = np.concatenate((self._sums, np.zeros(more)))
            self._counts = np.concatenate((self._counts, np.zeros(more)))


class GeneralizationGap:
    """Held-out events beside learned ones of the same age, kept to be predicted again.

    Every held-out event is paired with the next learned event that is still free, so both rings
    advance together, and they hold the same events however the stream was cut into batches.
    """

    def __init__(self, capacity: int = 4096) -> None:
        columns: tuple[type[Any], ...] = (np.uint64, np.uint64, np.uint8, np.uint16, np.float32)
        self._held_out = [RingBuffer(capacity, dtype) for dtype in columns]
        self._learned = [RingBuffer(capacity, dtype) for dtype in columns]
        self._unpaired = 0  # held-out events that still wait for a learned one

    @property
    def samples(self) -> int:
        """Number of events on the smaller side."""
        return min(len(self._held_out[0]), len(self._learned[0]))

    def add(
        self,
        users: NDArray[np.uint64],
        items: NDArray[np.uint64],
        reports: NDArray[np.uint8],
        channels: NDArray[np.uint16],
        priors: NDArray[np.float32],
        held_out: NDArray[np.bool_],
    ) -> None:
        """Remember events, (n,) each; `held_out` marks those that were never learned."""
        if not len(held_out):
            return
        chosen = np.empty(len(held_out), np.bool_)
        self._unpaired = int(error_scores.pair(held_out, self._unpaired, chosen))
        held_rows, learned_rows = np.flatnonzero(held_out), np.flatnonzero(chosen)
        columns: tuple[NDArray[Any], ...] = (users, items, reports, channels, priors)
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
