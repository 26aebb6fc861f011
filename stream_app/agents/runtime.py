"""What the stages of one worker share: the replica, its gauges, and how the process ends.

    reader thread --Decoded--> learn (event loop: replica, gauges, index) <-- query, views
                 \\--cut--> cut log

Everything here is touched by the event loop alone, except where a name says `thread`.
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
from stream_app.privacy.mechanism import Adjacency
from stream_app.recommender import Recommender
from stream_app.replica import Outcome, Replica
from stream_app.settings import Settings
from stream_app.wire import REASONS, Batch, Cut, Reason, Rejection, Topics


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
    clock_owned: bool = False
    failure: BaseException | None = None
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _mid_round: bool = False
    _at_cut: list[asyncio.Future[None]] = field(default_factory=list)
    _round_seconds: float = 0.0
    _digests: tuple[int, str, str] | None = None

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
        reason = self.ready_reason()
        return {
            "cut": replica.cut,
            "positions": list(replica.ends),
            "model_digest": self._digests[1],
            "ledger_digest": self._digests[2],
            "design_digest": replica.design.digest,
            "ready": not reason,
            "waiting_for": reason or None,
            "clock": self.clock_owned,
            "lag_records": self.gauges.lag_records,
            "counts": replica.ledger.counts(),
            "rejected": replica.ledger.rejected(),
            "devices": replica.marks.devices,
            "items": len(replica.items),
            "mechanisms": [m.id for m in replica.design.mechanisms],
            "privacy": self.privacy,
            "model": replica.learner.name,
            "index": self.recommender.index.method,
            "memory_bytes": replica.memory(),
            "quality": self.gauges.quality(),
        }

    @property
    def privacy(self) -> str:
        """The mode: `local` when every allowed mechanism protects something, else `none`."""
        mechanisms = self.replica.design.mechanisms
        unprotected = any(m.adjacency is Adjacency.NOTHING for m in mechanisms)
        return "none" if unprotected else "local"
