"""What the stages of one worker share: the replica, its gauges, and how the process ends.

    reader thread --Decoded--> learn (event loop: replica, gauges, index) <-- query, views
                 \\--cut--> cut log

The event loop alone touches what is here, but for this: the reader thread sets `start_end_offsets`,
`progress`, `heard_time`, `last_cut`, `other_design` and `cuts_ignored` as they come, reads
`reload`, `stopping`, `durable_end_offsets` and how much has changed, and fills the catalogue, whose
readers take one reference; the checkpoint thread reads copies of the state and `reload`; one of the
pool reads the seen filter for a gauge.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from stream_app.agents.checkpointing import divergence_evidence
from stream_app.agents.checkpointing.digest_comparison import DigestComparison, Digests
from stream_app.agents.checkpointing.restore import Reload, Restored
from stream_app.checkpoints.shadow_copy import load_found
from stream_app.errors import UserError
from stream_app.monitoring.gauges import Gauges
from stream_app.monitoring.metrics import Metrics
from stream_app.privacy.adjacency import Adjacency
from stream_app.replay.recompute import excluding
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.recommender import Recommendations, Recommender
from stream_app.settings import Settings
from stream_app.state.rejections import rejected
from stream_app.state.replica import Replica
from stream_app.wire import (
    LIST_LENGTH,
    Batch,
    Cut,
    DigestReport,
    Forget,
    Rejection,
    Topics,
    encode_message,
)

if TYPE_CHECKING:
    from stream_app.agents.checkpointing.service import CheckpointService

log = structlog.get_logger()

_SAMPLE = 8  # one question in so many is also answered exactly
_SILENCE_SECONDS = 12.0
_RELOADS = 3


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
    start_end_offsets: tuple[int, ...] | None = None
    progress: str = "asking the broker where the log ends"
    reload: Reload | None = None
    durable_end_offsets: tuple[int, ...] | None = None
    cut_offset: int = 0
    mid_round: bool = False
    stopping: bool = False  # the clock rests, and the last cut is told
    last_cut: int | None = None
    last_answer_time: float = field(default_factory=time.monotonic)
    other_design: str = ""
    cuts_ignored: int = 0
    clock_owned: bool = False
    failure: BaseException | None = None
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _cut_waiters: list[asyncio.Future[None]] = field(default_factory=list)
    _round_seconds: float = 0.0
    _answered: int = 0
    _reloads: int = 0

    def __post_init__(self) -> None:
        self.digest_comparison = DigestComparison(self.replica.spec.digest, self._on_difference)
        self.witness: Callable[[bytes], None] = lambda _: None
        self.checkpoints: CheckpointService | None = None

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
        self.mid_round = True
        outcome = self.replica.apply(batch)
        self.gauges.watch(outcome)
        self.recommender.mark_stale(outcome.rows)
        for rejection in rejected(self.topics.ratings, batch, outcome):
            self.reject(rejection)
        self._round_seconds += time.perf_counter() - started

    def end_round(self, cut: Cut, cut_offset: int) -> None:
        """Close a round; whoever waits for a cut may look now."""
        self.replica.end_round(cut.number, cut.end_offsets)
        self.cut_offset = cut_offset
        self.mid_round = False
        if self.checkpoints is not None:
            self.checkpoints.at_cut(cut, cut_offset)
        self.recommender.refresh()
        self.metrics.round_applied(cut.number, self._round_seconds, time.time())
        self._round_seconds = 0.0
        for waiting in self._cut_waiters:
            if not waiting.done():
                waiting.set_result(None)
        self._cut_waiters.clear()

    def forget(self, entry: Forget) -> None:
        """Forget a device from here on; with a rebuild, ask for a state in which it never was."""
        origin = self.replica.origin
        if not entry.rebuild:
            self.replica.forget(bytes.fromhex(entry.device))
            self.mid_round = True  # it belongs to the round that begins here
            log.info("device.forgotten", cut=self.replica.cut)
        elif entry.device not in origin.excluded:
            if origin.snapshot:
                raise UserError(
                    f"cut {self.replica.cut}: a device is to be forgotten with a rebuild, but the "
                    f"state began from the snapshot {origin.snapshot}: start over with murmurec "
                    "state rebuild --snapshot FILE"
                )
            self.reload = Reload("a device is forgotten", excluding(origin, [entry.device]))

    def compare(self, witness: DigestReport) -> None:
        """Compare what another replica held; what this worker wrote itself says nothing."""
        if self.checkpoints is None or not self.checkpoints.wrote(witness):
            self.digest_comparison.add_report(witness)

    async def restore(self, restored: Restored) -> None:
        """Replace the state, and with it everything that is derived from it."""
        if self.checkpoints is not None:
            await self.checkpoints.idle()
        if restored.found is not None:
            load_found(self.replica, restored.found)
            self.cut_offset = restored.found.manifest.cut_offset
        elif self.replica.cut or self.mid_round or self.replica.origin != restored.origin:
            self.replica.restart(restored.origin)
            self.cut_offset = 0
        self.mid_round = False
        self.reload = None
        self.progress = "asking the broker where the log ends"
        self.digest_comparison.clear()
        self.recommender.restart()
        self.gauges.restart()
        if self.checkpoints is not None:
            self.checkpoints.restart()
        log.info("state.restored", cut=self.replica.cut, checkpoint=restored.found is not None)

    def _on_difference(self, witness: DigestReport, ours: Digests) -> None:
        """Another replica held something else: raise the alarm, keep the evidence, start over.

        The log decides, where it reaches back: both replicas replay it, for this one answers with
        what it holds, and the one that was wrong is right again. Else the checkpoint does.
        """
        if self.reload is not None:
            return
        self.metrics.checkpoints.differs()
        log.error(
            "replica.differs",
            cut=witness.cut,
            ours=[ours.model, ours.ledger],
            add_report=[witness.model, witness.ledger],
            mend="murmurec state verify tells which of them the log says",
        )
        replica = self.replica
        answer = DigestReport(ours.cut, ours.model, ours.ledger, replica.spec.digest, ours.origin)
        self.witness(encode_message(answer))
        self._reloads = 0 if self.digest_comparison.agreed_before else self._reloads
        self._reloads += 1
        if self._reloads > _RELOADS:
            self.fail(
                UserError(
                    f"the state differs from another replica's at cut {witness.cut} again, after "
                    f"{_RELOADS} reloads: run murmurec state verify, and replace the machine that "
                    "is wrong, or the checkpoint (murmurec state rebuild)"
                )
            )
            return
        folder = self.settings.data_dir / "evidence" / self.settings.topic_prefix
        try:
            path = divergence_evidence.keep_evidence(folder, replica, witness, ours, self.mid_round)
            log.error("replica.evidence", path=str(path))
        except (OSError, UserError) as reason:
            # A full disk must not keep a wrong state alive.
            log.error("replica.evidence_lost", reason=str(reason))
        origin = None if replica.origin.snapshot else replica.origin
        self.reload = Reload("this replica and another differ", origin, or_checkpoint=True)

    # --- questions about the state --------------------------------------------------------

    def ready_reason(self) -> str:
        """Return why the worker is not ready, empty when it is."""
        if self.broker_unreachable:
            return "Kafka does not answer"
        if self.reload is not None:
            return f"starting over: {self.reload.reason}"
        if self.start_end_offsets is None:
            return self.progress
        done, wanted = sum(self.replica.end_offsets), sum(self.start_end_offsets)
        if any(
            a < b for a, b in zip(self.replica.end_offsets, self.start_end_offsets, strict=True)
        ):
            return f"replaying the log: {done:,} of {wanted:,} records applied"
        return ""

    @property
    def catching_up(self) -> bool:
        """Whether answers still lack ratings that the log held when this worker started."""
        return (
            self.start_end_offsets is None
            or self.reload is not None
            or any(
                here < end
                for here, end in zip(self.replica.end_offsets, self.start_end_offsets, strict=True)
            )
        )

    @property
    def broker_unreachable(self) -> bool:
        """Whether the broker has not answered the reader for a while."""
        return time.monotonic() - self.last_answer_time > _SILENCE_SECONDS

    async def at_cut(self, seconds: float = 10.0) -> None:
        """Wait until the state is exactly that of a cut; TimeoutError where a round stays open."""
        async with asyncio.timeout(seconds):
            while self.mid_round:
                waiting: asyncio.Future[None] = self._loop.create_future()
                self._cut_waiters.append(waiting)
                await waiting

    async def digests(self) -> Digests:
        """Return cut, positions, model digest and ledger digest; hashed off the event loop."""
        async with asyncio.timeout(10.0):
            assert self.checkpoints is not None, "attached before anything can ask"
            return await self.checkpoints.digests()

    async def state(self) -> dict[str, Any]:
        """Return cut, positions, digests (all of one cut), and the counts as they are now."""
        held = await self.digests()
        replica, reason = self.replica, self.ready_reason()
        return {
            "cut": held.cut,
            "positions": list(held.end_offsets),
            "model_digest": held.model,
            "ledger_digest": held.ledger,
            "design_digest": replica.spec.digest,
            "base": msgspec.to_builtins(replica.origin),
            "other_design": self.other_design or None,
            "other_base": self.digest_comparison.other_origin or None,
            "ready": not reason,
            "waiting_for": reason or None,
            "clock": self.clock_owned,
            "checkpoint": self.checkpoints.status() if self.checkpoints else None,
            "replicas_agreed": self.digest_comparison.agreed,
            "lag_records": self.gauges.lag_records,
            "counts": replica.ledger.counts(),
            "rejected": replica.ledger.rejected(),
            "cells_missing": self.gauges.cells_missing,
            "cuts_ignored": self.cuts_ignored,
            "catalogue_set_aside": self.catalogue.rejected,
            "devices": replica.marks.devices,
            "items": len(replica.items),
            "mechanisms": [m.id for m in replica.spec.mechanisms],
            "privacy": self.privacy,
            "model": replica.learner.name,
            "index": self.recommender.index.method,
            "memory_bytes": replica.memory(),
            "quality": self.gauges.quality(),
        }

    def answer(self, device: bytes, transport: str, arrived: float) -> Recommendations:
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
        mechanisms = self.replica.spec.mechanisms
        unprotected = any(m.adjacency is Adjacency.NOTHING for m in mechanisms)
        return "none" if unprotected else "local"
