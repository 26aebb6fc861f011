"""What the stages of one worker share: the replica, its gauges, and how the process ends.

    reader thread --Decoded--> learn (event loop: replica, gauges, index) <-- query, views
                 \\--cut--> cut log

The event loop alone touches what is here, but for this: the reader thread sets `start_ends` once,
`heard_time`, `other_design` and `cuts_ignored` as they come, and fills the catalogue, whose readers
take one reference; a thread of the pool hashes copies of the state, and another reads the seen
filter for a gauge.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stream_app.catalogue import Catalogue
from stream_app.gauges import Gauges
from stream_app.log.ledger import DUPLICATE
from stream_app.metrics import Metrics
from stream_app.privacy.adjacency import Adjacency
from stream_app.recommender import Answer, Recommender
from stream_app.replica import Outcome, Replica, digest
from stream_app.settings import Settings
from stream_app.wire import LIST_LENGTH, REASONS, Batch, Cut, Reason, Rejection, Topics

_SAMPLE = 8  # one question in so many is also answered exactly
_SILENCE_SECONDS = 12.0


@dataclass(eq=False)
class Runtime:
    """One worker's state and gauges; the stages are attached to it. Make it inside a running
    loop."""

    settings: Settings
    topics: Topics
    replica: Replica
    catalogue: Catalogue
    recommender: Recommender
    gauges: Gauges
    reject: Callable[[Rejection], None]
    start_ends: tuple[int, ...] | None = None
    heard_time: float = field(default_factory=time.monotonic)
    other_design: str = ""
    cuts_ignored: int = 0
    clock_owned: bool = False
    failure: BaseException | None = None
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _mid_round: bool = False
    _at_cut: list[asyncio.Future[None]] = field(default_factory=list)
    _round_seconds: float = 0.0
    _digests: tuple[int, tuple[int, ...], str, str] | None = None
    _hashing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _answered: int = 0

    @property
    def metrics(self) -> Metrics:
        """What is published under /metrics."""
        return self.gauges.metrics

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
        """Apply one run, watch what it did, and tell of what was set aside."""
        started = time.perf_counter()
        self._mid_round = True
        outcome = self.replica.apply(batch)
        self.gauges.watch(batch, outcome)
        self.recommender.touched(outcome.rows)
        self._tell_rejected(batch, outcome)
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

    def _tell_rejected(self, batch: Batch, outcome: Outcome) -> None:
        for i in np.flatnonzero(outcome.records > DUPLICATE):
            reason = REASONS[batch.reasons[i]] if batch.reasons[i] else Reason.SEQ_JUMP
            offset, size = int(batch.offsets[i]), int(batch.sizes[i])
            self.reject(Rejection(self.topics.ratings, batch.partition, offset, reason, size))

    # --- questions about the state --------------------------------------------------------

    def ready_reason(self) -> str:
        """Return why the worker is not ready, empty when it is."""
        if self.kafka_is_silent:
            return "Kafka does not answer"
        if self.start_ends is None:
            return "asking the broker where the log ends"
        done, wanted = sum(self.replica.ends), sum(self.start_ends)
        if any(a < b for a, b in zip(self.replica.ends, self.start_ends, strict=True)):
            return f"replaying the log: {done:,} of {wanted:,} records applied"
        return ""

    @property
    def kafka_is_silent(self) -> bool:
        """Whether the broker has not answered the reader for a while."""
        return time.monotonic() - self.heard_time > _SILENCE_SECONDS

    async def at_cut(self, seconds: float = 10.0) -> None:
        """Wait until the state is exactly that of a cut; TimeoutError where a round stays open."""
        async with asyncio.timeout(seconds):
            while self._mid_round:
                waiting: asyncio.Future[None] = self._loop.create_future()
                self._at_cut.append(waiting)
                await waiting

    async def digests(self) -> tuple[int, tuple[int, ...], str, str]:
        """Return cut, positions, model digest and ledger digest; hashed off the event loop."""
        async with self._hashing:
            await self.at_cut()
            replica = self.replica
            if self._digests is None or self._digests[0] != replica.cut:
                cut, ends = replica.cut, replica.ends
                model = {name: array.copy() for name, array in replica.model_arrays().items()}
                ledger = replica.ledger_digest()
                design = replica.design.digest
                hashed = await self._loop.run_in_executor(None, digest, design, model)
                self._digests = cut, ends, hashed, ledger
            return self._digests

    async def state(self) -> dict[str, Any]:
        """Return cut, positions, digests (all of one cut), and the counts as they are now."""
        cut, ends, model_digest, ledger_digest = await self.digests()
        replica, reason = self.replica, self.ready_reason()
        return {
            "cut": cut,
            "positions": list(ends),
            "model_digest": model_digest,
            "ledger_digest": ledger_digest,
            "design_digest": replica.design.digest,
            "other_design": self.other_design or None,
            "ready": not reason,
            "waiting_for": reason or None,
            "clock": self.clock_owned,
            "lag_records": self.gauges.lag_records,
            "counts": replica.ledger.counts(),
            "rejected": replica.ledger.rejected(),
            "cells_missing": self.gauges.cells_missing,
            "cuts_ignored": self.cuts_ignored,
            "catalogue_set_aside": self.catalogue.set_aside,
            "devices": replica.marks.devices,
            "items": len(replica.items),
            "mechanisms": [m.id for m in replica.design.mechanisms],
            "privacy": self.privacy,
            "model": replica.learner.name,
            "index": self.recommender.index.method,
            "memory_bytes": replica.memory(),
            "quality": self.gauges.quality(),
        }

    def answer(self, device: bytes, transport: str, arrived: float) -> Answer:
        """Answer one question, take its time since `arrived` (perf_counter), and sample its
        recall."""
        answer = self.recommender.answer(device, LIST_LENGTH)
        self.metrics.query_answered(answer.method, transport, time.perf_counter() - arrived)
        self._answered += 1
        if self._answered % _SAMPLE == 0:
            self.gauges.recall(self.recommender.recall(device, 10))
        return answer

    @property
    def privacy(self) -> str:
        """The mode: `local` when every allowed mechanism protects something, else `none`."""
        mechanisms = self.replica.design.mechanisms
        unprotected = any(m.adjacency is Adjacency.NOTHING for m in mechanisms)
        return "none" if unprotected else "local"
