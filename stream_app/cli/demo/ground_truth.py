"""Predictions beside the true ratings, a comparison that only a demo can make.

The demo simulates the devices, so it knows their ratings; the server does not. When the state is
recomputed from the log, `GroundTruth` takes each prediction as it was before its event was learned
and compares it with the true rating. The worker, whose state has the same digest, never sees it.
The true ratings of the page's visitors are in their browsers: they are counted and not compared.

The baseline is the running mean of each item over the *true* ratings: no personalization, but no
privacy either.
"""

from __future__ import annotations

from math import nan, sqrt

import numpy as np
from numpy.typing import NDArray

from producers.fleet.population import Population
from stream_app.monitoring.live_baselines import ItemMeanBaseline
from stream_app.privacy.mechanism import Mechanism
from stream_app.state.replica import BatchOutcome
from stream_app.wire import Batch

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class GroundTruth:
    """The true rating of every (user, item) of a population in stars, 1 .. 5, and the errors of
    predictions against it. `visitors`: ratings of others than the population."""

    def __init__(self, population: Population, ratings: NDArray[np.float64]) -> None:
        values = population.scale.values
        self._unit = float(values[-1] - values[0]) / 4.0
        halves = b"".join(device[:8] for device in population.devices)
        users = np.frombuffer(halves, "<u8").astype(np.uint64)[population.users]
        cells = _cells(users, population.items)[population.fresh]
        order = np.argsort(cells)
        self._cells = cells[order]
        stars = 1.0 + (ratings - values[0]) / self._unit
        self._stars = stars[population.fresh][order]
        self._baseline = ItemMeanBaseline()
        self._squares, self._events = 0.0, 0
        self.visitors = 0

    def stars(self, users: NDArray[np.uint64], items: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Return the true ratings (n,); NaN for a cell that the population has not rated, as those
        of the page's visitors, whose true ratings stay in their browsers."""
        cells = _cells(users, items)
        places = np.minimum(np.searchsorted(self._cells, cells), len(self._cells) - 1)
        return np.where(self._cells[places] == cells, self._stars[places], np.nan)

    def compare(self, batch: Batch, outcome: BatchOutcome) -> None:
        """Count the ratings of visitors, and add the errors of the other predictions."""
        users = np.repeat(batch.devices[:, 0], batch.counts)
        self.visitors += int(np.isnan(self.stars(users, batch.items)).sum())
        stars = self.stars(outcome.users, outcome.items)
        known = ~np.isnan(stars)
        if not known.any():
            return
        stars, predicted = stars[known], outcome.update.predicted[known]
        self._squares += float(((predicted - stars) ** 2).sum())
        self._baseline.add(outcome.rows[known], stars, stars, stars * stars)
        self._events += len(stars)

    @property
    def rmse(self) -> float:
        """Prequential RMSE against the truth, in the data's own units."""
        return sqrt(self._squares / self._events) * self._unit if self._events else nan

    @property
    def rmse_baseline(self) -> float:
        """Prequential RMSE of the running item means of the truth, in the data's own units."""
        return self._baseline.error.rmse_debiased("all") * self._unit


def guessed_right(
    items: NDArray[np.uint64], levels: NDArray[np.uint8], mechanism: Mechanism
) -> tuple[float, float] | None:
    """Return the share of single ratings that an attacker guesses right who knows every other one:
    without the report, and with it, on average over its noise. The guess is the likeliest level.
    None for a mechanism whose channel depends on a mask.

    items, levels (n,): the true ratings.
    """
    if len(mechanism.masks):
        return None
    keys, rows = np.unique(items, return_inverse=True)
    counts = np.zeros((len(keys), mechanism.levels))
    np.add.at(counts, (rows, levels), 1)
    channel, right = mechanism.likelihood(), np.zeros(2)
    for level in range(mechanism.levels):
        others = counts + counts.sum(axis=0) / len(items)  # of a new item
        others[:, level] -= counts[:, level] > 0
        weight = counts[:, level] / len(items)
        right[0] += weight @ (others.argmax(axis=1) == level)
        for report in range(len(channel)):
            guess = (others * channel[report, : mechanism.levels]).argmax(axis=1)
            right[1] += channel[report, level] * (weight @ (guess == level))
    return float(right[0]), float(right[1])


def _cells(users: NDArray[np.uint64], items: NDArray[np.uint64]) -> NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        return users * _GOLDEN + items
