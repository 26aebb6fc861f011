"""Predictions beside the true ratings, a comparison that only a demo can make.

The demo simulates the devices, so it knows their ratings; the server does not. `GroundTruth` reads
the same log with the same replica as the worker (their digests are equal), takes each prediction as
it was before its event was learned, and compares it with the true rating. The worker never sees it.
The true ratings of the page's visitors are in their browsers: they are counted and not compared.

The baseline is the running mean of each item over the *true* ratings: no personalization, but no
privacy either.
"""

from __future__ import annotations

import threading
import time
from math import nan, sqrt

import numpy as np
from numpy.typing import NDArray

from producers.fleet.population import Population
from stream_app.deployment import Deployment, new_replica
from stream_app.errors import UserError
from stream_app.monitoring.baselines import ItemMeanBaseline
from stream_app.replay.follower import Follower
from stream_app.state.replica import BatchOutcome
from stream_app.wire import Batch

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class GroundTruthRatings:
    """The true rating of every (user, item) of a population in stars, the learner's scale 1 .. 5.

    `unit`: data units per star.
    """

    def __init__(self, population: Population, ratings: NDArray[np.float64]) -> None:
        values = population.scale.values
        self.unit = float(values[-1] - values[0]) / 4.0
        halves = b"".join(device[:8] for device in population.devices)
        users = np.frombuffer(halves, "<u8").astype(np.uint64)[population.users]
        cells = _cells(users, population.items)[population.fresh]
        order = np.argsort(cells)
        self._cells = cells[order]
        stars = 1.0 + (ratings - values[0]) / self.unit
        self._stars = stars[population.fresh][order]

    def stars(self, users: NDArray[np.uint64], items: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Return the true ratings (n,); NaN for a cell that the population has not rated, as those
        of the page's visitors, whose true ratings stay in their browsers."""
        cells = _cells(users, items)
        places = np.minimum(np.searchsorted(self._cells, cells), len(self._cells) - 1)
        return np.where(self._cells[places] == cells, self._stars[places], np.nan)


def _cells(users: NDArray[np.uint64], items: NDArray[np.uint64]) -> NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        return users * _GOLDEN + items


class GroundTruth(threading.Thread):
    """Follows the log in a thread of its own until `stop`."""

    def __init__(self, deployment: Deployment, truth: GroundTruthRatings) -> None:
        super().__init__(name="murmurec-ground-truth", daemon=True)
        self._follower = Follower(deployment)
        self._replica = new_replica(deployment.spec)
        self._truth = truth
        self.unit = truth.unit
        self._baseline = ItemMeanBaseline()
        self._sum = 0.0
        self._ended = threading.Event()
        self.events = 0
        self.visitors = 0  # ratings of others than the population
        self.cut = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Apply the log as it grows."""
        try:
            while not self._ended.is_set():
                for piece in self._follower.poll(0.05):
                    if piece.batch is not None:
                        self._count_visitors(piece.batch)
                        self._compare(self._replica.apply(piece.batch))
                    if piece.cut is not None:
                        cut = piece.cut
                        self._replica.end_round(cut.number, cut.end_offsets, cut.accepted_days)
                        self.cut = cut.number
        except BaseException as error:  # noqa: BLE001 - raised by the main thread
            self.failure = error
        finally:
            self._follower.close()

    def _count_visitors(self, batch: Batch) -> None:
        users = np.repeat(batch.devices[:, 0], batch.counts)
        self.visitors += int(np.isnan(self._truth.stars(users, batch.items)).sum())

    def _compare(self, outcome: BatchOutcome) -> None:
        stars = self._truth.stars(outcome.users, outcome.items)
        known = ~np.isnan(stars)
        if not known.any():
            return
        stars, predicted = stars[known], outcome.update.predicted[known]
        self._sum += float(((predicted - stars) ** 2).sum())
        self._baseline.add(outcome.rows[known], stars, stars, stars * stars)
        self.events += len(stars)

    @property
    def rmse_true(self) -> float:
        """Prequential RMSE against the truth, in the data's own units."""
        events, total = self.events, self._sum
        return sqrt(total / events) * self.unit if events else nan

    @property
    def rmse_baseline(self) -> float:
        """Prequential RMSE of the running item means of the truth, in the data's own units."""
        return self._baseline.error.rmse_debiased("all") * self.unit

    def wait_for(self, cut: int, seconds: float = 120.0) -> None:
        """Return when the thread has reached this cut or has failed."""
        deadline = time.monotonic() + seconds
        while self.cut < cut and self.failure is None:
            if time.monotonic() > deadline:
                raise UserError(f"the log was not followed to cut {cut} within {seconds:.0f} s")
            time.sleep(0.05)

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._ended.set()
        self.join(10.0)
