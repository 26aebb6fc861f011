"""The thread that hashes the frozen pages of a worker and writes its checkpoints.

    claim   scan the state topic -> claim a generation (a fencing token)
    job     hash the pages; owner: rejections acknowledged? pages -> manifest -> digest report

A refused write ends the process; a broker that is away is waited for. Every step is given up
between two records when the lease changes.
"""

from __future__ import annotations

import asyncio
import queue
import secrets
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from stream_app.agents.checkpointing.digest_comparison import Digests
from stream_app.agents.checkpointing.fenced_producer import FencedProducer
from stream_app.agents.rejections import RejectionWriter
from stream_app.agents.runtime import Runtime
from stream_app.checkpoints.driver import CheckpointDriver
from stream_app.checkpoints.protocol.recovery import greatest_cut
from stream_app.checkpoints.protocol.writer import OWNER_BYTES, Freeze, LeaseAcquired, LeaseReleased
from stream_app.checkpoints.state_image import StateImage
from stream_app.errors import Unanswered
from stream_app.kafka.background_thread import BackgroundThread
from stream_app.models.frozen_arrays import Room
from stream_app.wire import DigestReport, Tail, encode_message
from stream_app.wire.state_records import Manifest, StateOrigin

log = structlog.get_logger()

_PAUSE_SECONDS = 0.0005  # between two MiB that go back to the system, for the event loop
ScanStateTopic = Callable[[], tuple[list[bytes], list[Manifest]]]
"""Returns the live keys and the manifests of the state topic."""


@dataclass(eq=False)
class CheckpointJob:
    """Hash the frozen pages; write them if `lease` is still held (0: only hash).

    The first `rejections` must be acknowledged before. `done` becomes whether it is durable.
    """

    image: StateImage
    lease: int
    cut_offset: int
    tails: tuple[Tail | None, ...]
    rejections: int
    began: float
    done: asyncio.Future[bool]


@dataclass(frozen=True)
class WrittenCheckpoint:
    """A durable checkpoint: its manifest, seconds since the freeze, bytes sent."""

    manifest: Manifest
    seconds: float
    sent_bytes: int


@dataclass(frozen=True)
class _ClaimJob:
    """Claim a generation under a lease, for a state over `origin`."""

    lease: int
    origin: StateOrigin


class CheckpointThread:
    """Works off claims and jobs, one after the other; make it inside the running loop.

    `on_digests` and `on_finished` are called on the event loop: with the digests of every job, and
    with the job when it is done and its durable checkpoint, None where none was written.
    """

    def __init__(
        self,
        runtime: Runtime,
        changelog: FencedProducer,
        rejections: RejectionWriter,
        topic_id: str,
        scan_state_topic: ScanStateTopic,
        worker: str,
        on_digests: Callable[[Digests], None],
        on_finished: Callable[[CheckpointJob, WrittenCheckpoint | None], None],
    ) -> None:
        self.lease = 0  # 0: none; set by other threads, another number for each acquisition
        self._working_lease = 0  # the lease under which this thread works
        self._claimed_lease = 0  # the lease under which the generation was claimed
        self._runtime = runtime
        self._rejections = rejections
        self._topic_id = topic_id
        self._scan_state_topic = scan_state_topic
        self._worker = worker
        self._on_digests = on_digests
        self._on_finished = on_finished
        self._driver = CheckpointDriver(
            changelog.produce, changelog.poll, self._lease_unchanged, runtime.seal
        )
        self._reports_written: deque[DigestReport] = deque(maxlen=16)
        self._jobs: queue.SimpleQueue[CheckpointJob | _ClaimJob | Room | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = BackgroundThread("checkpoint", self._run, runtime.status.fail_from_thread)
        self._thread.start()

    @property
    def ready(self) -> bool:
        """Whether a generation was claimed, so that a checkpoint can be written."""
        return self._driver.writer.ready

    @property
    def full(self) -> bool:
        """Whether the next checkpoint is the first of its generation and writes every page."""
        return self._driver.writer.full or self.lease != self._claimed_lease

    @property
    def generation(self) -> int | None:
        """The claimed generation."""
        return self._driver.writer.generation

    def claim(self, lease: int, origin: StateOrigin) -> None:
        """Queue the claim of a generation under this lease."""
        self._jobs.put(_ClaimJob(lease, origin))

    def submit(self, job: CheckpointJob | Room) -> None:
        """Queue a job, whose image must stay frozen until it is done, or memory to be closed."""
        self._jobs.put(job)

    def wrote(self, report: DigestReport) -> bool:
        """Return whether this thread wrote a digest report."""
        return report in self._reports_written

    def close(self) -> None:
        """End the thread; the current job is abandoned, as a crash would leave it."""
        self._thread.end()
        self._jobs.put(None)
        self._thread.join(1.0)

    # --- the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            if isinstance(job, _ClaimJob):
                self._claim(job)
            elif isinstance(job, Room):
                while job.give_back():
                    time.sleep(_PAUSE_SECONDS)
            else:
                durable = self._work_off(job)
                self._loop.call_soon_threadsafe(self._on_finished, job, durable)

    def _lease_unchanged(self) -> bool:
        return self.lease == self._working_lease and not self._thread.ended

    def _claim(self, job: _ClaimJob) -> None:
        """Claim a generation that is not behind the checkpoints in the topic."""
        self._driver.writer.step(LeaseReleased())
        self._working_lease = job.lease
        if not self._lease_unchanged() or (scanned := self._scan_patiently()) is None:
            return
        keys, manifests = scanned
        line = self._runtime.replica.spec.digest, self._topic_id, job.origin
        reach = greatest_cut(manifests, line)
        self._driver.drive(
            LeaseAcquired(secrets.token_bytes(OWNER_BYTES), self._worker, keys, reach)
        )
        self._claimed_lease = job.lease
        log.info("checkpoint.claimed", generation=self.generation, reach=reach)

    def _scan_patiently(self) -> tuple[list[bytes], list[Manifest]] | None:
        """Read the state topic; a broker that is away is waited for."""
        while self._lease_unchanged():
            try:
                return self._scan_state_topic()
            except Unanswered as reason:
                log.warning("broker.unanswered", reason=str(reason))
        return None

    def _work_off(self, job: CheckpointJob) -> WrittenCheckpoint | None:
        image = job.image
        image.hash()
        digests = Digests(
            image.cut, image.end_offsets, image.model, image.ledger, image.origin.digest
        )
        self._loop.call_soon_threadsafe(self._on_digests, digests)
        self._working_lease = job.lease
        if not (job.lease and self._lease_unchanged() and self.ready):
            return None
        self._rejections.wait(job.rejections, self._lease_unchanged)
        if self._runtime.replacement.reload is not None:
            return None  # the state is known to differ
        before = self._driver.acknowledged_bytes
        manifest = self._driver.drive(
            Freeze(image.frozen(self._topic_id, job.cut_offset, job.tails))
        )
        if manifest is None:
            return None
        self._report_digests(manifest)
        seconds = time.monotonic() - job.began
        return WrittenCheckpoint(manifest, seconds, self._driver.acknowledged_bytes - before)

    def _report_digests(self, manifest: Manifest) -> None:
        """Append a digest report to the cut log, for the other replicas to compare."""
        m = manifest
        report = DigestReport(m.cut, m.model, m.ledger, m.design, m.origin.digest).sealed(
            self._runtime.seal
        )
        self._reports_written.append(report)
        self._runtime.append(encode_message(report))
