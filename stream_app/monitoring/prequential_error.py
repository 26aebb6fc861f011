"""Prequential error: every event is predicted first and learned afterwards.

An event has a prediction t, the report read as a rating (stars), and two unbiased numbers from its
mechanism's channel,

    E[value | r] = r        E[square | r] = r^2        f_t(z) = square - 2 t value + t^2 weight
    reported RMSE = sqrt(mean (t - stars)^2)           debiased RMSE = sqrt(sum f_t(z) / sum weight)

E[f_t(z) | r] = (r - t)^2, so the debiased error is that of the true ratings, which the server
never sees. Weight is 1 where presence is public. Where it is protected E[weight] is 1 for a cell
with a rating and 0, as E[f_t(z)] is, for a cell without; every cell of an item that was known
before is scored, also the cells reported as missing, so fakes cancel and the quotient is again the
error on true ratings alone. (t must not depend on the cell's own report. There is one small
dependence: a record's priors are computed from the whole record, and the cells of one record are
learned one after the other.) With few events the noise can make the mean of f_t(z) negative; the
RMSE is then NaN. Where a channel cannot be inverted, value and square are NaN and the event counts
as reported only; its log-loss,

    -ln P(z | t, channel)   nats a report,   beside that of the blank baseline,

replaces the debiased error. Only the distance between the two curves measures taste: most of either
curve is the channel's own noise. A report of a like is scored in this way in every cell, and its
baseline is the item's running share of likes.

No learned state is changed, no clock is read, no I/O is done.
"""

from __future__ import annotations

from math import nan, sqrt
from typing import Generic, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

T = TypeVar("T", bound=np.generic)


class RingBuffer(Generic[T]):
    """The newest `capacity` values of a sequence, in no particular order."""

    def __init__(self, capacity: int, dtype: type[T]) -> None:
        if capacity < 1:
            raise ValueError(f"capacity {capacity}: a ring buffer holds at least one value")
        self._values = np.zeros(capacity, dtype)
        self._added = 0

    def __len__(self) -> int:
        return min(self._added, len(self._values))

    def add(self, values: ArrayLike) -> None:
        """Add values (n,), oldest first; values older than the newest `capacity` are dropped."""
        capacity = len(self._values)
        newest = np.asarray(values)[-capacity:]
        self._added += np.size(values)
        first = (self._added - len(newest)) % capacity
        room = min(len(newest), capacity - first)
        self._values[first : first + room] = newest[:room]
        self._values[: len(newest) - room] = newest[room:]

    def values(self) -> NDArray[T]:
        """Return a view of the values held; copy it to keep it."""
        return self._values[: len(self)]


Floats = NDArray[np.float64]
Window = Literal["recent", "all"]
WINDOWS: tuple[Window, ...] = get_args(Window)
Predictor = Literal["model", "blank"]
PREDICTORS: tuple[Predictor, ...] = get_args(Predictor)
"""The values of the metric's label; `blank` is the baseline: all levels equally likely, and for
likes the item's share."""


class PrequentialError:
    """Prequential error over all events and over the newest `recent` ones."""

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
        """Add squared errors, (n,) each; a NaN is unknown.

        `weights` belong to the debiased errors; None means 1 each.

        With weights some reports may be "missing"; their reported error is NaN.
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

    def _rmse(self, kind: int, window: Window) -> float:
        errors, weights = self._sums[kind]
        if window != "all":
            errors, weights = (ring.values().sum() for ring in self._recent[kind])
        return sqrt(errors / weights) if weights > 0 and errors >= 0 else nan


class LogLoss:
    """Mean of -ln P(report) over all reports and over the newest `recent`, of two predictors."""

    def __init__(self, recent: int = 10_000) -> None:
        self._count = 0
        self._sums = np.zeros(2)
        self._recent = (RingBuffer(recent, np.float64), RingBuffer(recent, np.float64))

    def add(self, probability: Floats, uniform: Floats) -> None:
        """Add the probabilities (n,) of reports under the model and under the uniform baseline."""
        self._count += len(probability)
        for kind, probabilities in enumerate((probability, uniform)):
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
