"""Checkpoints of one worker: taken on the event loop at a cut, hashed and written by a thread.

    event loop   at a cut: freeze (copy the changed pages, about 1 ms for 16 MB)
    thread       hash the pages; owner: rejections acknowledged? pages -> manifest -> digest report

The owner of the clock checkpoints at the cuts that are marked for it, and at any cut while it
catches up or when none has come for a while. Every other replica takes its digests at marked cuts
once it has caught up, so that all can be compared. What is asked about the state (/state) is
answered from the same copies.

There is one shadow of the state: while the thread works on it, nothing is frozen. A refused write
ends the process; a broker that is away is waited for.
"""

from __future__ import annotations

import asyncio
import itertools
import queue
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog

from stream_app.agents.checkpointing.digest_comparison import Digests
from stream_app.agents.checkpointing.fenced_producer import FencedProducer
from stream_app.agents.rejections import RejectionWriter
from stream_app.agents.runtime import Runtime
from stream_app.checkpoints.driver import CheckpointDriver
from stream_app.checkpoints.protocol.writer import OWNER_BYTES, Freeze, LeaseAcquired, LeaseReleased
from stream_app.checkpoints.shadow_copy import Snapshot
from stream_app.errors import UserError
from stream_app.wire import Cut, DigestReport, encode_message
from stream_app.wire.state_records import Manifest, StateOrigin

log = structlog.get_logger()
_REST_SECONDS = 1.0
_Written = tuple[Manifest, float, int]  # what is durable, after how many seconds, bytes sent


@dataclass(eq=False)
class _CheckpointJob:
    """Hash the frozen pages; write them if `lease` is still held (0: only hash).

    The first `rejections` must be acknowledged before. `done` becomes whether it is durable.
    """

    lease: int
    cut_offset: int
    rejections: int
    began: float
    done: asyncio.Future[bool]


@dataclass(frozen=True)
class _ClaimJob:
    """Claim a generation (a fencing token) under a lease, for a state over `origin`."""

    lease: int
    origin: StateOrigin


class CheckpointService:
    """The checkpoints of the replica of one runtime; make it inside the running loop.

    `scan_state_topic` returns the keys and manifests of the state topic.
    """

    def __init__(
        self,
        runtime: Runtime,
        changelog: FencedProducer,
        rejections: RejectionWriter,
        topic_id: str,
        scan_state_topic: Callable[[], tuple[list[bytes], list[Manifest]]],
        worker: str,
    ) -> None:
        self._runtime = runtime
        self._rejections = rejections
        self._topic_id = topic_id
        self._scan_state_topic = scan_state_topic
        self._worker = worker
        self._snapshot = Snapshot(runtime.replica)
        self._driver = CheckpointDriver(changelog.produce, changelog.poll, self._may_go_on)
        self._writer = self._driver.writer
        self._leases = itertools.count(1)
        self._lease = 0  # 0: none; another number for each time that it was given
        self._working_lease = 0  # the one under which the thread works
        self._has_state = False  # whether the reader has handed over a state
        self._job: _CheckpointJob | None = None
        self._frozen_time = time.monotonic()
        self._digest_requests: list[asyncio.Future[Digests]] = []
        self._known: Digests | None = None
        self._durable_cut: int | None = None
        self._reports_written: deque[DigestReport] = deque(maxlen=16)
        self._jobs: queue.SimpleQueue[_CheckpointJob | _ClaimJob | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="murmurec-checkpoint", daemon=True)
        self._thread.start()

    # --- the lease ------------------------------------------------------------------------

    def acquire(self) -> None:
        """Acquire the lease: claim a generation, once there is a state to write."""
        self._lease = next(self._leases)
        if self._has_state:
            self._jobs.put(_ClaimJob(self._lease, self._runtime.replica.origin))

    def release(self) -> None:
        """Stop writing, between two records; from any thread."""
        self._lease = 0

    # --- event loop -----------------------------------------------------------------------

    @property
    def wanted(self) -> bool:
        """Whether so much has changed that a checkpoint ought to come before its time."""
        return bool(
            self._lease
            and self._job is None
            and self._snapshot.dirty_bytes >= self._runtime.settings.checkpoint_bytes
        )

    def at_cut(self, cut: Cut, cut_offset: int) -> None:
        """Freeze the state, which is that of a cut, if a checkpoint or a digest is due."""
        if self._job is not None:
            return
        seconds = time.monotonic() - self._frozen_time
        late = seconds >= 2 * self._runtime.settings.checkpoint_seconds
        marked = cut.checkpoint and not self._runtime.ready_reason()
        write = bool(self._lease) and (marked or late) and self._writer.ready
        if write or marked or self._digest_requests:
            self._freeze(write, cut_offset)

    def _freeze(self, write: bool, cut_offset: int) -> asyncio.Future[bool]:
        began = time.perf_counter()
        self._snapshot.freeze()
        self._runtime.metrics.frozen(time.perf_counter() - began)
        self._frozen_time = time.monotonic()
        lease, queued = self._lease if write else 0, self._rejections.queued_count
        done: asyncio.Future[bool] = self._loop.create_future()
        self._job = _CheckpointJob(lease, cut_offset, queued, self._frozen_time, done)
        self._jobs.put(self._job)
        return done

    async def digests(self) -> Digests:
        """Return the digests of the newest cut, or of the next one if a round is under way."""
        runtime = self._runtime
        if (
            self._known is not None
            and not runtime.mid_round
            and self._known.cut == runtime.replica.cut
        ):
            return self._known
        asked: asyncio.Future[Digests] = self._loop.create_future()
        self._digest_requests.append(asked)
        self._serve()
        return await asked

    def _serve(self) -> None:
        """Freeze for pending digest requests, unless a round or a job is under way: then later."""
        if self._digest_requests and self._job is None and not self._runtime.mid_round:
            self._freeze(False, self._runtime.cut_offset)

    async def idle(self) -> None:
        """Return when the thread no longer works on the shadow."""
        while self._job is not None:
            await asyncio.shield(self._job.done)

    def restart(self) -> None:
        """Start over with a replica whose state was replaced; the shadow must be free."""
        self._snapshot = Snapshot(self._runtime.replica)
        self._known = self._durable_cut = None
        self._has_state = True
        if self._lease:
            self.acquire()

    def wrote(self, report: DigestReport) -> bool:
        """Return whether this worker wrote a digest report."""
        return report in self._reports_written

    def status(self) -> dict[str, Any]:
        """Return what /state shows of the checkpoints of this worker."""
        return {
            "owned": bool(self._lease),
            "generation": self._writer.generation,
            "durable_cut": self._durable_cut,
        }

    async def finish(self, seconds: float) -> bool:
        """Write a last checkpoint if this worker writes them and anything has changed; return
        whether the newest cut is durable, as far as this worker has to see to it."""
        if not self._lease:
            return True
        runtime = self._runtime
        try:
            async with asyncio.timeout(seconds):
                await self._last_cut()
                while runtime.mid_round or self._job is not None:
                    await runtime.at_cut()
                    await self.idle()
                if runtime.replica.cut == self._durable_cut:
                    return True
                if runtime.replacement.reload is not None:
                    return False  # what is held is to be replaced
                return await asyncio.shield(self._freeze(True, runtime.cut_offset))
        except TimeoutError:
            return False

    async def _last_cut(self) -> None:
        """Let the clock rest, and wait until what it has cut is applied; not for long."""
        runtime = self._runtime
        if not runtime.status.clock_owned or runtime.catching_up:
            return
        runtime.status.stopping = True
        with suppress(TimeoutError):
            async with asyncio.timeout(_REST_SECONDS):
                while (
                    runtime.status.last_cut is None or runtime.replica.cut < runtime.status.last_cut
                ):
                    await asyncio.sleep(0.005)

    def checkpoint_when_idle(self) -> None:
        """Checkpoint the last cut when the stream goes idle, in case its marked cut was skipped."""
        runtime = self._runtime
        seconds = time.monotonic() - self._frozen_time
        if (
            seconds >= 2 * runtime.settings.checkpoint_seconds
            and self._lease
            and self._writer.ready
            and not (self._job or runtime.mid_round or runtime.replacement.reload)
            and runtime.replica.cut not in (0, self._durable_cut)
        ):
            self._freeze(True, runtime.cut_offset)

    def close(self) -> None:
        """End the thread; what is under way is left, as a crash would leave it."""
        self._ended.set()
        self._jobs.put(None)
        self._thread.join(1.0)

    def _digested(self, digests: Digests) -> None:
        self._known = digests
        self._runtime.replacement.comparison.add_own(digests)
        for asked in self._digest_requests:
            if not asked.done():
                asked.set_result(digests)
        self._digest_requests.clear()

    def _finish_job(self, take: _CheckpointJob, written: _Written | None) -> None:
        self._job = None
        if written is not None:
            manifest, seconds, sent = written
            self._durable_cut = manifest.cut
            self._runtime.status.durable_end_offsets = manifest.end_offsets
            self._runtime.metrics.checkpoint_durable(manifest.cut, time.time(), seconds, sent)
        take.done.set_result(written is not None)
        self._serve()

    # --- thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (job := self._jobs.get()) is not None:
                if isinstance(job, _ClaimJob):
                    self._claim(job)
                else:
                    written = self._work_off(job)
                    self._loop.call_soon_threadsafe(self._finish_job, job, written)
        except BaseException as reason:  # noqa: BLE001 - whatever ends the thread ends the process
            self._runtime.status.fail_from_thread(reason)

    def _may_go_on(self) -> bool:
        return self._lease == self._working_lease and not self._ended.is_set()

    def _claim(self, job: _ClaimJob) -> None:
        """Claim a generation that is not behind the checkpoints in the topic."""
        self._writer.step(LeaseReleased())
        self._working_lease = job.lease
        if not self._may_go_on() or (there := self._scan_patiently()) is None:
            return
        keys, manifests = there
        here = self._runtime.replica.spec.digest, self._topic_id, job.origin
        reach = max(
            (m.cut for m in manifests if (m.design, m.topic_id, m.origin) == here), default=0
        )
        self._driver.drive(
            LeaseAcquired(secrets.token_bytes(OWNER_BYTES), self._worker, keys, reach)
        )
        log.info("checkpoint.claimed", generation=self._writer.generation, reach=reach)

    def _scan_patiently(self) -> tuple[list[bytes], list[Manifest]] | None:
        """Read the state topic; a broker that is away is waited for."""
        while self._may_go_on():
            try:
                return self._scan_state_topic()
            except UserError:
                if not self._runtime.status.broker_unreachable:
                    raise
        return None

    def _work_off(self, job: _CheckpointJob) -> _Written | None:
        snapshot = self._snapshot
        snapshot.hash()
        origin = snapshot.origin.digest
        digests = Digests(
            snapshot.cut, snapshot.end_offsets, snapshot.model, snapshot.ledger, origin
        )
        self._loop.call_soon_threadsafe(self._digested, digests)
        self._working_lease = job.lease
        if not (job.lease and self._may_go_on() and self._writer.ready):
            return None
        self._rejections.wait(job.rejections, self._may_go_on)
        if self._runtime.replacement.reload is not None:
            return None  # it is known to differ
        before = self._driver.acknowledged_bytes
        manifest = self._driver.drive(Freeze(snapshot.frozen(self._topic_id, job.cut_offset)))
        if manifest is None:
            return None
        self._report_digests(manifest)
        return manifest, time.monotonic() - job.began, self._driver.acknowledged_bytes - before

    def _report_digests(self, manifest: Manifest) -> None:
        """Let the other replicas compare."""
        m = manifest
        report = DigestReport(m.cut, m.model, m.ledger, m.design, m.origin.digest)
        self._reports_written.append(report)
        self._runtime.append(encode_message(report))
