"""Measurements of a worker: prediction error, leakage, fill of the sketches.

Every number is computed from applied batches, so it is post-processing of released reports. Cheap
numbers are updated with every batch; `publish` updates those that read a whole sketch, once a
second.

Leakage is estimated by the generalization gap (Balu 2016, eq. 4.15): Gaussians are fitted to the
residuals of learned (tr) and held-out (te) events:

    KL = 1/2 (s_tr^2 / s_te^2 + (m_tr - m_te)^2 / s_te^2 - 1 + ln(s_te^2 / s_tr^2))   nats

KL measures an average and is not a bound: a low value proves nothing about a single person's
rating. With n samples on each side, a model without leakage still shows about 2 / n nats.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import isnan, log, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.factorization import error_scores
from stream_app.kernels.instrumentation import timed
from stream_app.log.ledger import APPLIED, DUPLICATE
from stream_app.monitoring.drift import Blocks, PageHinkley
from stream_app.monitoring.live_baselines import ItemMeanBaseline
from stream_app.monitoring.metrics import Metrics
from stream_app.monitoring.prequential_error import (
    PREDICTORS,
    Floats,
    LogLoss,
    PrequentialError,
    RingBuffer,
)
from stream_app.serving.recommender import Recommender
from stream_app.state.replica import BatchOutcome, Replica
from stream_app.wire import REASONS

FEWEST_SAMPLES = 30


class GeneralizationGap:
    """Pairs of a held-out and a learned event of the same age, kept to be predicted again.

    Every held-out event is paired with the next learned event that has no partner, so both ring
    buffers advance together, and their contents do not depend on how the stream is batched.
    """

    def __init__(self, capacity: int = 4096) -> None:
        columns: tuple[type[Any], ...] = (np.uint64, np.uint64, np.uint8, np.uint16, np.float32)
        self._held_out = [RingBuffer(capacity, dtype) for dtype in columns]
        self._learned = [RingBuffer(capacity, dtype) for dtype in columns]
        self._unpaired = 0  # held-out events that still wait for a learned event

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
        """Keep events, (n,) each; `held_out` marks the events that are never learned."""
        if not len(held_out):
            return
        chosen = np.empty(len(held_out), np.bool_)
        self._unpaired = int(timed(error_scores.pair, held_out, self._unpaired, chosen))
        held_out_rows, learned_rows = np.flatnonzero(held_out), np.flatnonzero(chosen)
        columns: tuple[NDArray[Any], ...] = (users, items, reports, channels, priors)
        for kept, learned, column in zip(self._held_out, self._learned, columns, strict=True):
            kept.add(column[held_out_rows])
            learned.add(column[learned_rows])

    def measure(self, residuals: Callable[..., Floats]) -> float:
        """Return KL in nats, NaN where unknown; `residuals` returns the error (n,) of the current
        model on events: users, items, reports, channels, priors.

        Unknown means fewer than `FEWEST_SAMPLES` events on a side, or residuals without variance.
        """
        if self.samples < FEWEST_SAMPLES:
            return nan
        learned = residuals(*(ring.values() for ring in self._learned))
        held_out = residuals(*(ring.values() for ring in self._held_out))
        return gaussian_kl(*_moments(learned), *_moments(held_out))


def _moments(residuals: Floats) -> tuple[float, float]:
    """Return mean and standard deviation; exactly 0 for equal residuals, despite rounding."""
    if not np.isfinite(residuals).all():
        return nan, nan
    alike = residuals.max() == residuals.min()
    return float(np.mean(residuals)), 0.0 if alike else float(np.std(residuals))


def gaussian_kl(mean: float, deviation: float, other_mean: float, other_deviation: float) -> float:
    """Return KL(N(mean, deviation) || N(other_mean, other_deviation)); NaN where a width is 0."""
    if not (deviation > 0 and other_deviation > 0):
        return nan
    ratio = (deviation / other_deviation) ** 2
    shift = ((mean - other_mean) / other_deviation) ** 2
    return 0.5 * (ratio + shift - 1 - log(ratio))


_RECALLS = 200


class Gauges:
    """The gauges of one replica, published through `metrics`."""

    def __init__(self, metrics: Metrics, replica: Replica, recommender: Recommender) -> None:
        self.metrics = metrics
        self._replica = replica
        self.restart()
        self.cells_missing = 0
        self.lag_records = 0
        self._recommender = recommender
        self._scratch = np.empty((6, 1024))
        self.follow_design()
        self._recalls: list[float] = []
        self._kl = nan
        self._caught_up_time = time.time()

    def follow_design(self) -> None:
        """Follow the channels of the replica, which are others."""
        channels = self._replica.channels
        self._weighed = bool(channels.presence.any())
        self._undecided = not channels.inverted[channels.alphabets > 0].all()

    def restart(self) -> None:
        """Start the measurements over: the state of the replica was replaced as a whole."""
        self.error = PrequentialError()
        self.baseline = ItemMeanBaseline()
        self.gap = GeneralizationGap()
        self.log_loss = LogLoss()
        self._drift, self._blocks = PageHinkley(), Blocks()
        self._known_items = len(self._replica.items)  # before the batch that is watched

    def watch(self, outcome: BatchOutcome) -> None:
        """Count the effects of a batch, and score its predictions."""
        metrics = self.metrics
        records = np.bincount(outcome.records, minlength=4)
        metrics.applied(int(records[APPLIED]))
        metrics.duplicate(int(records[DUPLICATE]))
        metrics.seq_gaps(outcome.gaps)
        for code, count in enumerate(np.bincount(outcome.reasons).tolist()):
            if code and count:
                metrics.rejected(REASONS[code], count)
        held = int(outcome.held_out.sum())
        metrics.ratings(
            learned=len(outcome.users) - held,
            held_out=held,
            clipped=int((outcome.update.clipped & ~outcome.held_out).sum()),
            duplicate=outcome.duplicates,
        )
        self.cells_missing += len(outcome.missing.rows)
        metrics.cells_missing(len(outcome.missing.rows))
        if len(outcome.users):
            self._score(outcome)
        if len(outcome.missing.rows):
            self._score_silent(outcome)
        self._known_items = len(self._replica.items)

    def replaced(self, rows: NDArray[np.int64]) -> None:
        """Start over for rows that have another item now."""
        self.baseline.forget(rows)

    def _score(self, outcome: BatchOutcome) -> None:
        channels, rows = self._replica.channels, outcome.rows
        predicted, numbers, reports = outcome.update.predicted, outcome.channels, outcome.reports
        if self._undecided:
            self._score_reports(outcome)
        # A cell that makes its item known was chosen by its own report: fakes would not cancel.
        # Of likes every cell is scored, so none was chosen.
        hidden = (channels.presence & ~channels.likes)[numbers] if self._weighed else None
        # Of an item without a row the cells reported as missing are not scored either.
        chosen = None
        if hidden is not None:
            chosen = hidden & ((rows < 0) | (rows >= self._known_items))
        if chosen is None or not chosen.any():
            self._compare(rows, predicted, numbers, reports)
        else:
            fair = ~chosen
            self._compare(rows[fair], predicted[fair], numbers[fair], reports[fair])
        self.gap.add(
            outcome.users,
            outcome.items,
            outcome.reports,
            outcome.channels,
            outcome.priors,
            outcome.held_out,
        )

    def _score_reports(self, outcome: BatchOutcome) -> None:
        """Add the log-loss of reports without a debiased error, before the baseline learns them."""
        channels = self._replica.channels
        which = ~channels.inverted[outcome.channels]
        if not which.any():
            return
        numbers = outcome.channels[which]
        cells = channels.rows(numbers, outcome.reports[which])
        g = np.where(channels.absent[cells] > 0, outcome.priors[which], 1.0)
        blank = g * channels.uniform[cells] + (1 - g) * channels.absent[cells]
        if channels.likes[numbers].any():  # all of them: likes and stars have one model each
            share = channels.like_probability(self.baseline.predict(outcome.rows[which]))
            liked, other = channels.likelihood[cells, 1], channels.likelihood[cells, 0]
            blank = share * liked + (1 - share) * other
        self.log_loss.add(outcome.update.probability[which], blank)

    def _score_silent(self, outcome: BatchOutcome) -> None:
        """Score the cells reported as missing: without them, fakes would not cancel."""
        silent = outcome.missing
        known = (silent.rows >= 0) & (silent.rows < self._known_items)
        rows, predicted = silent.rows[known], silent.predicted[known]
        self._compare(rows, predicted, silent.channels[known], silent.reports[known])

    def _compare(
        self,
        rows: NDArray[np.int64],
        predicted: NDArray[np.float64],
        channels: NDArray[np.uint16],
        reports: NDArray[np.uint8],
    ) -> None:
        """Score the model and the item means on the same cells, then learn the means."""
        table, m = self._replica.channels, len(rows)
        if m > self._scratch.shape[1]:
            self._scratch = np.empty((6, 2 * m))
        timed(
            error_scores.score,
            predicted, self.baseline.predict(rows), channels, reports, table.starts,
            table.face_value, table.value, table.square, table.weight, self._scratch,
        )  # fmt: skip
        reported, debiased, others, other, values, weights = self._scratch[:, :m]
        weighed = weights if self._weighed else None
        self.error.add_errors(reported, debiased, weighed)
        for mean in self._blocks.add(debiased, weighed):
            detected = self._drift.add(mean)
            self.metrics.drift("error", self._drift.statistic, detected=detected)
        self.baseline.error.add_errors(others, other, weighed)
        self.baseline.learn(rows, values, weighed)

    def lag(self, records: int) -> None:
        """Enter how many records wait to be applied."""
        self.lag_records = records
        if not records:
            self._caught_up_time = time.time()

    def recall(self, ratio: float) -> None:
        """Enter the recall of one sampled query; the gauge is the mean of the newest 200."""
        if not isnan(ratio):
            self._recalls = [*self._recalls[-_RECALLS + 1 :], ratio]
            self.metrics.recall(self._recommender.index.method, self._mean_recall)

    @property
    def _mean_recall(self) -> float:
        return sum(self._recalls) / len(self._recalls) if self._recalls else nan

    def quality(self) -> dict[str, float | None]:
        """Return the newest numbers, on the scale 1 .. 5; None where a number is unknown."""
        numbers = {
            "rmse_reported": self.error.rmse_reported("all"),
            "rmse_debiased": self.error.rmse_debiased("all"),
            "rmse_reported_recent": self.error.rmse_reported("recent"),
            "rmse_debiased_recent": self.error.rmse_debiased("recent"),
            "rmse_baseline_debiased": self.baseline.error.rmse_debiased("all"),
            "log_loss_nats": self.log_loss.nats("model", "all"),
            "log_loss_blank_nats": self.log_loss.nats("blank", "all"),
            "kl_nats": self._kl,
            "recall": self._mean_recall,
        }
        return {name: None if isnan(value) else value for name, value in numbers.items()}

    def memory(self) -> dict[str, int]:
        """Return the bytes that each part of a worker holds: of the state, of lists and of these
        gauges; not the copies for checkpoints."""
        derived = self._recommender.memory() | {"item means": self.baseline.memory_bytes}
        return self._replica.memory() | derived

    def publish(self) -> None:
        """Update the gauges that are too costly for every batch; takes a few ms."""
        metrics, replica = self.metrics, self._replica
        metrics.rmse("reported", "recent", self.error.rmse_reported("recent"))
        metrics.rmse("reported", "all", self.error.rmse_reported("all"))
        metrics.rmse("debiased", "recent", self.error.rmse_debiased("recent"))
        metrics.rmse("debiased", "all", self.error.rmse_debiased("all"))
        metrics.rmse_baseline("reported", self.baseline.error.rmse_reported())
        metrics.rmse_baseline("debiased", self.baseline.error.rmse_debiased())
        for predictor in PREDICTORS:
            metrics.log_loss(predictor, "recent", self.log_loss.nats(predictor, "recent"))
            metrics.log_loss(predictor, "all", self.log_loss.nats(predictor, "all"))
        self._kl = self.gap.measure(replica.learner.residuals)
        metrics.kl(self._kl)
        metrics.privacy_mode(replica.privacy, replica.spec.privacy_mode)
        if replica.campaigns is not None:
            metrics.campaign(replica.campaigns.summary())
        metrics.seq_reused(int(replica.ledger.reused.sum()))
        moment = replica.second_moment
        metrics.second_moment(moment.estimate(), moment.relative_deviation)
        metrics.count_min_error_bound(replica.frequencies.error_bound)
        metrics.entities(items=len(replica.items), devices=replica.marks.devices)
        for table, slots in replica.learner.slots.items():
            metrics.sketch_load(table, (len(replica.items) + replica.marks.devices) / slots)
        for part, size in self.memory().items():
            metrics.memory(part, size)
        behind = time.time() - self._caught_up_time if self.lag_records else 0.0
        metrics.lag(self.lag_records, max(0.0, behind))
        metrics.indexed(self._recommender.index.method, self._recommender.index.size)

    def publish_fill(self) -> None:
        """Update the gauges of the seen filter; reads the whole filter, so it may run in a thread.

        Concurrent additions may or may not be counted; the gauges are estimates.
        """
        fill, false_positive = self._replica.seen.ratios()
        self.metrics.bloom(fill=fill, false_positive=false_positive)
