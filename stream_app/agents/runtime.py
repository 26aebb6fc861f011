"""What the stages of one worker share: the replica, what watches it, and how it ends.

    reader thread --Decoded--> learn (event loop: replica, gauges, index) <-- query, views
                 \\--cut--> cut log

Everything here is touched by the event loop alone, except where a name says `thread`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import isnan
from typing import Any

import numpy as np
import structlog

from stream_app.accuracy import Baseline, Drift, Leakage
from stream_app.catalogue import Catalogue
from stream_app.log.ledger import APPLIED, DUPLICATE
from stream_app.metrics import Metrics
from stream_app.privacy.mechanism import Adjacency
from stream_app.recommender import Recommender
from stream_app.replica import Outcome, Replica
from stream_app.settings import Settings
from stream_app.wire import REASONS, Batch, Cut, Reason, Rejection, Topics

log = structlog.get_logger()


@dataclass(eq=False)
class Runtime:
    """One worker's state and gauges; the stages are attached to it."""

    settings: Settings
    topics: Topics
    replica: Replica
    catalogue: Catalogue
    recommender: Recommender
    metrics: Metrics
    reject: Callable[[Rejection], None]
    drift: Drift = field(default_factory=Drift)
    baseline: Baseline = field(default_factory=Baseline)
    leakage: Leakage = field(default_factory=Leakage)
    start_ends: tuple[int, ...] | None = None
    clock_owned: bool = False
    lag_records: int = 0
    failure: BaseException | None = None
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _mid_round: bool = False
    _at_cut: list[asyncio.Future[None]] = field(default_factory=list)
    _round_seconds: float = 0.0
    _digests: tuple[int, str, str] | None = None
    _recalls: list[float] = field(default_factory=list)
    _kl: float = float("nan")
    _caught_up_time: float = field(default_factory=time.time)

    # --- ending --------------------------------------------------------------------------

    def fail(self, reason: BaseException) -> None:
        """End the process with this reason; the first one counts."""
        if self.failure is None:
            self.failure = reason
        self.ending.set()

    def fail_from_thread(self, reason: BaseException) -> None:
        """End the process from another thread."""
        self._loop.call_soon_threadsafe(self.fail, reason)

    # --- the log -------------------------------------------------------------------------

    def apply(self, batch: Batch) -> None:
        """Apply one run and watch what it did."""
        started = time.perf_counter()
        self._mid_round = True
        outcome = self.replica.apply(batch)
        self._watch(batch, outcome)
        self._round_seconds += time.perf_counter() - started

    def end_round(self, cut: Cut) -> None:
        """Close a round; whoever waits for a cut may look now."""
        self.replica.end_round(cut.number, cut.ends)
        self._mid_round = False
        self.recommender.refresh()
        self.metrics.round_applied(cut.number, self._round_seconds, time.time())
        self._round_seconds = 0.0
        for waiting in self._at_cut:
            if not waiting.done():
                waiting.set_result(None)
        self._at_cut.clear()
        if not self.ready_reason():
            self.metrics.ready(True)

    def _watch(self, batch: Batch, outcome: Outcome) -> None:
        metrics, lessons = self.metrics, outcome.lessons
        metrics.applied(int((outcome.records == APPLIED).sum()))
        metrics.duplicate(int((outcome.records == DUPLICATE).sum()))
        for i in np.flatnonzero(outcome.records > DUPLICATE):
            reason = REASONS[batch.reasons[i]] if batch.reasons[i] else Reason.SEQ_JUMP
            metrics.rejected(reason)
            self.reject(
                Rejection(
                    self.topics.ratings,
                    batch.partition,
                    int(batch.offsets[i]),
                    reason,
                    int(batch.sizes[i]),
                )
            )
        held = int(outcome.held.sum())
        metrics.ratings(
            learned=len(outcome.users) - held,
            held_out=held,
            clipped=int(lessons.clipped.sum()),
            duplicate=batch.ratings - len(outcome.users),
        )
        if not len(outcome.users):
            return
        channels = self.replica.channels
        chosen = (outcome.mechanisms, outcome.reports)
        stars, values, squares = (
            channels.stars(*chosen),
            channels.value[chosen],
            channels.square[chosen],
        )
        self.drift.add(lessons.predicted, stars, values, squares)
        self.baseline.add(outcome.rows, stars, values, squares)
        self.leakage.add(
            outcome.users, outcome.items, outcome.reports, outcome.mechanisms, outcome.held
        )
        self.recommender.touched(outcome.rows)

    # --- questions about the state --------------------------------------------------------

    def ready_reason(self) -> str:
        """Return why the worker is not ready, empty when it is."""
        if self.start_ends is None:
            return "asking the broker where the log ends"
        done, wanted = sum(self.replica.ends), sum(self.start_ends)
        if any(a < b for a, b in zip(self.replica.ends, self.start_ends, strict=True)):
            return f"replaying the log: {done:,} of {wanted:,} records applied"
        return ""

    async def at_cut(self) -> None:
        """Wait until the state is exactly that of a cut."""
        while self._mid_round:
            waiting: asyncio.Future[None] = self._loop.create_future()
            self._at_cut.append(waiting)
            await waiting

    async def state(self) -> dict[str, Any]:
        """Return cut, positions, digests and counts, all of one cut."""
        await self.at_cut()
        replica = self.replica
        if self._digests is None or self._digests[0] != replica.cut:
            self._digests = replica.cut, replica.model_digest(), replica.ledger_digest()
        return {
            "cut": replica.cut,
            "positions": list(replica.ends),
            "model_digest": self._digests[1],
            "ledger_digest": self._digests[2],
            "design_digest": replica.design.digest,
            "ready": not self.ready_reason(),
            "waiting_for": self.ready_reason() or None,
            "clock": self.clock_owned,
            "lag_records": self.lag_records,
            "counts": replica.ledger.counts(),
            "rejected": replica.ledger.rejected(),
            "devices": replica.marks.devices,
            "items": len(replica.items),
            "mechanisms": [m.id for m in replica.design.mechanisms],
            "privacy": self.privacy,
            "model": replica.learner.name,
            "index": self.recommender.index.method,
            "memory_bytes": replica.memory(),
            "quality": self.quality(),
        }

    @property
    def privacy(self) -> str:
        """The mode: `local` when every allowed mechanism protects something, else `none`."""
        mechanisms = self.replica.design.mechanisms
        unprotected = any(m.adjacency is Adjacency.NOTHING for m in mechanisms)
        return "none" if unprotected else "local"

    # --- gauges --------------------------------------------------------------------------

    def sampled_recall(self, ratio: float) -> None:
        """Enter the recall of one sampled query; the gauge is the mean of the newest 200."""
        if not isnan(ratio):
            self._recalls = [*self._recalls[-199:], ratio]
            mean = sum(self._recalls) / len(self._recalls)
            self.metrics.recall(self.recommender.index.method, mean)

    def quality(self) -> dict[str, float | None]:
        """Return the newest gauges, None where there is no number."""
        numbers = {
            "rmse_reported": self.drift.rmse_reported("all"),
            "rmse_debiased": self.drift.rmse_debiased("all"),
            "rmse_reported_recent": self.drift.rmse_reported("recent"),
            "rmse_debiased_recent": self.drift.rmse_debiased("recent"),
            "rmse_baseline_debiased": self.baseline.drift.rmse_debiased("all"),
            "kl_nats": self._kl,
            "recall": sum(self._recalls) / len(self._recalls) if self._recalls else float("nan"),
        }
        return {name: None if isnan(value) else value for name, value in numbers.items()}

    def publish_gauges(self) -> None:
        """Bring the slow gauges up to date; called every second."""
        replica, metrics = self.replica, self.metrics
        for window in ("recent", "all"):
            metrics.rmse("reported", window, self.drift.rmse_reported(window))
            metrics.rmse("debiased", window, self.drift.rmse_debiased(window))
        metrics.rmse_baseline("reported", self.baseline.drift.rmse_reported())
        metrics.rmse_baseline("debiased", self.baseline.drift.rmse_debiased())
        self._kl = self.leakage.measure(replica.learner.residuals)
        metrics.kl(self._kl)
        metrics.bloom(
            fill=replica.seen.fill_ratio, false_positive=replica.seen.false_positive_ratio
        )
        metrics.second_moment(
            replica.second_moment.estimate(), replica.second_moment.relative_deviation
        )
        metrics.count_min_error_bound(replica.frequencies.error_bound)
        metrics.entities(items=len(replica.items), devices=replica.marks.devices)
        for part, size in replica.memory().items():
            metrics.memory(part, size)
        behind = time.time() - self._caught_up_time if self.lag_records else 0.0
        metrics.lag(self.lag_records, max(0.0, behind))
        metrics.ready(not self.ready_reason())
        metrics.indexed(self.recommender.index.method, self.recommender.index.size)

    def lag_seen(self, records: int) -> None:
        """Enter how many records wait to be applied."""
        self.lag_records = records
        if not records:
            self._caught_up_time = time.time()
