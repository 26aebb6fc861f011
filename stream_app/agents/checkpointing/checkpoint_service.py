"""Checkpoints of one worker: taken on the event loop at a cut, hashed and written by a thread.

    event loop   at a cut: freeze (marks only: `checkpoints/state_image.py`)
    thread       hash; owner: write (`checkpoint_thread`)
    event loop   release
    thread       give the memory back

The owner of the clock checkpoints at the cuts that are marked for it, and at any cut where twice
the cost has gathered at which one is due, as while it catches up. Every other replica takes its
digests at marked cuts once it has caught up, so that all can be compared. Requests about the state
(/state) are answered from the same images.

There is one image of the state: while the thread works on it, nothing else is frozen.

    cost        seconds spent applying what no durable checkpoint covers: about as long as a
                replay of it takes
    due         cost >= replay_seconds, and 4 times what the last checkpoint took to be written
                have passed since, so that writing takes at most a fifth of the time; a minute of it
                counts at most, since the rest may be a broker that was away
    or          a tenth of the retention of ratings has passed since the first of it: a start must
                find it in the log
    or          `checkpoint_seconds`, where it is set, have passed since the last checkpoint

So a quiet stream and a large state cost few checkpoints, and a kill costs no more than a bounded
replay at any rate.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from stream_app.agents.checkpointing.checkpoint_thread import (
    CheckpointJob,
    CheckpointThread,
    ScanStateTopic,
    WrittenCheckpoint,
)
from stream_app.agents.checkpointing.digest_comparison import Digests
from stream_app.agents.checkpointing.fenced_producer import FencedProducer
from stream_app.agents.rejections import RejectionWriter
from stream_app.agents.runtime import Runtime
from stream_app.checkpoints.state_image import StateImage
from stream_app.errors import UserError
from stream_app.wire import Cut, DigestReport
from stream_app.wire.state_records import Manifest

_PAUSE = 4.0  # seconds without writing for each second that a checkpoint took to be written
_LONGEST_WRITE = 60.0  # seconds
_RETENTION_SHARE = 0.1


@dataclass(eq=False)
class ReplayCost:
    """The cost since the last durable checkpoint; times are of one steady clock, in seconds.

    `longest` is the time between two checkpoints while something arrives, `retention` that for
    which ratings are kept; None: no limit.
    """

    limit: float
    longest: float | None = None
    retention: float | None = None
    seconds: float = 0.0
    _since: float | None = None  # when the first uncovered round was applied
    _frozen: float = 0.0  # part of `seconds` that the checkpoint being written covers
    _last_time: float = 0.0  # of the last checkpoint
    _durable_time: float = 0.0
    _pause: float = 0.0  # from then on

    def start(self, now: float) -> None:
        """Begin with a state that a checkpoint covers, or that is new."""
        self.seconds = self._frozen = 0.0
        self._since, self._last_time, self._pause = None, now, 0.0

    def applied(self, seconds: float, now: float) -> None:
        """Add a round that took `seconds` to apply."""
        self.seconds += seconds
        if self._since is None:
            self._since = now

    def frozen(self, now: float) -> None:
        """Record that a checkpoint of everything applied so far is being written."""
        self._frozen, self._last_time = self.seconds, now

    def durable(self, now: float) -> None:
        """Record that this checkpoint is durable."""
        self.seconds -= self._frozen
        self._durable_time = now
        self._pause = _PAUSE * min(now - self._last_time, _LONGEST_WRITE)
        self._since = self._last_time if self.seconds > 0 else None

    def due(self, now: float, factor: float = 1.0) -> bool:
        """Return whether a checkpoint is due, or would be with `factor` times the limits and the
        pause."""
        if self._since is None:
            return False
        rested = now - self._durable_time >= factor * self._pause
        if self.seconds >= factor * self.limit and rested:
            return True
        if self.retention is not None:
            age = now - self._since
            if age >= factor * _RETENTION_SHARE * self.retention:
                return True
        return self.longest is not None and now - self._last_time >= factor * self.longest


_REST_SECONDS = 1.0


class CheckpointService:
    """The checkpoints of the replica of one runtime; make it inside the running loop."""

    def __init__(
        self,
        runtime: Runtime,
        changelog: FencedProducer,
        rejections: RejectionWriter,
        topic_id: str,
        scan_state_topic: ScanStateTopic,
        worker: str,
    ) -> None:
        self._runtime = runtime
        self._rejections = rejections
        self._image = StateImage(runtime.replica)
        self._leases = itertools.count(1)
        self._has_state = False  # whether the reader has handed over a state
        self._job: CheckpointJob | None = None
        settings = runtime.settings
        self._cost = ReplayCost(
            settings.replay_seconds,
            settings.checkpoint_seconds,
            settings.ratings_retention_seconds,
        )
        self._cost.start(time.monotonic())
        self._digest_requests: list[asyncio.Future[Digests]] = []
        self._known: Digests | None = None
        self._durable_cut: int | None = None
        self._thread = CheckpointThread(
            runtime,
            changelog,
            rejections,
            topic_id,
            scan_state_topic,
            worker,
            on_digests=self._receive_digests,
            on_finished=self._finish_job,
        )

    # --- the lease ------------------------------------------------------------------------

    def acquire(self) -> None:
        """Acquire the lease: claim a generation, once there is a state to write."""
        self._thread.lease = next(self._leases)
        if self._has_state:
            self._thread.claim(self._thread.lease, self._runtime.replica.origin)

    def release(self) -> None:
        """Stop writing, between two records; from any thread."""
        self._thread.lease = 0

    # --- at a cut -------------------------------------------------------------------------

    @property
    def wanted(self) -> bool:
        """Whether a checkpoint is due, so that the next cut ought to be marked for it."""
        return bool(self._thread.lease and self._job is None and self._cost.due(time.monotonic()))

    def at_cut(self, cut: Cut, cut_offset: int, seconds: float) -> None:
        """Freeze the state, which is that of a cut, if a checkpoint or a digest is due; the round
        took `seconds` to apply."""
        self._cost.applied(seconds, time.monotonic())
        if self._job is not None:
            return
        marked = cut.checkpoint and not self._runtime.state_reason()
        write = (marked or self._overdue) and self._may_write
        if write or marked or self._digest_requests:
            self._freeze(write, cut_offset)

    def checkpoint_when_idle(self) -> None:
        """Checkpoint the last cut when the stream goes idle, in case its marked cut was skipped."""
        runtime = self._runtime
        if (
            self._overdue
            and self._may_write
            and not (self._job or runtime.mid_round or runtime.replacement.reload)
            and runtime.replica.cut not in (0, self._durable_cut)
        ):
            self._freeze(True, runtime.cut_offset)

    @property
    def _overdue(self) -> bool:
        return self._cost.due(time.monotonic(), factor=2.0)

    @property
    def _may_write(self) -> bool:
        return bool(self._thread.lease) and self._thread.ready

    def _freeze(self, write: bool, cut_offset: int) -> asyncio.Future[bool]:
        """Begin a job; return whether it is durable, later. Without memory the process ends."""
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        began = time.perf_counter()
        try:
            self._image.freeze(write=write, full=self._thread.full)
        except UserError as reason:
            self._runtime.status.fail(reason)
            done.set_result(False)
            return done
        self._runtime.metrics.frozen(time.perf_counter() - began)
        frozen = time.monotonic()
        if write:
            self._cost.frozen(frozen)
        self._job = CheckpointJob(
            self._image,
            lease=self._thread.lease if write else 0,
            cut_offset=cut_offset,
            tails=self._runtime.tails,
            rejections=self._rejections.queued_count,
            began=frozen,
            done=done,
        )
        self._thread.submit(self._job)
        return self._job.done

    def _finish_job(self, job: CheckpointJob, durable: WrittenCheckpoint | None) -> None:
        self._job = None
        # A checkpoint under another lease says nothing of what this one's writer has written.
        current = durable is not None and job.lease == self._thread.lease
        self._thread.submit(job.image.release(durable=current))
        if durable is not None:
            manifest = durable.manifest
            self._cost.durable(time.monotonic())
            self._durable_cut = manifest.cut
            self._runtime.status.durable_end_offsets = manifest.end_offsets
            self._runtime.metrics.checkpoint_durable(
                manifest.cut, time.time(), durable.seconds, durable.sent_bytes
            )
        job.done.set_result(durable is not None)
        self._serve_requests()

    # --- digests --------------------------------------------------------------------------

    async def digests(self) -> Digests:
        """Return the digests of the newest cut, or of the next one in the middle of a round."""
        runtime, known = self._runtime, self._known
        if known is not None and not runtime.mid_round and known.cut == runtime.replica.cut:
            return known
        request: asyncio.Future[Digests] = asyncio.get_running_loop().create_future()
        self._digest_requests.append(request)
        self._serve_requests()
        return await request

    def _serve_requests(self) -> None:
        """Freeze for pending digest requests; during a round or a job, its end calls this again."""
        if self._digest_requests and self._job is None and not self._runtime.mid_round:
            self._freeze(False, self._runtime.cut_offset)

    def _receive_digests(self, digests: Digests) -> None:
        self._known = digests
        self._runtime.replacement.comparison.add_own(digests)
        for request in self._digest_requests:
            if not request.done():
                request.set_result(digests)
        self._digest_requests.clear()

    def wrote(self, report: DigestReport) -> bool:
        """Return whether this worker wrote a digest report."""
        return self._thread.wrote(report)

    def status(self) -> dict[str, Any]:
        """Return the part of /state about the checkpoints of this worker."""
        return {
            "owned": bool(self._thread.lease),
            "generation": self._thread.generation,
            "durable_cut": self._durable_cut,
            "uncovered_seconds": round(self._cost.seconds, 3),
        }

    # --- replacing the state, and the end -------------------------------------------------

    async def idle(self) -> None:
        """Return when the thread no longer works on the image."""
        while self._job is not None:
            await asyncio.shield(self._job.done)

    def restart(self, manifest: Manifest | None = None) -> None:
        """Start over with a replica whose state was replaced, by a checkpoint if given, which is
        durable; the image must be free."""
        self._image = StateImage(self._runtime.replica, manifest)
        self._known, self._durable_cut = None, manifest.cut if manifest else None
        self._cost.start(time.monotonic())
        self._has_state = True
        if self._thread.lease:
            self.acquire()

    async def finish(self, seconds: float) -> bool:
        """Write a last checkpoint if this worker holds the lease and the state has changed.

        Return whether the newest cut is durable; True without the lease.
        """
        if not self._thread.lease:
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
                    return False  # this state is to be replaced
                return await asyncio.shield(self._freeze(True, runtime.cut_offset))
        except TimeoutError:
            return False

    async def _last_cut(self) -> None:
        """Stop the clock, and wait up to a second until its last cut is applied."""
        runtime, status = self._runtime, self._runtime.status
        if not status.clock_owned or runtime.catching_up:
            return
        status.stopping = True
        with suppress(TimeoutError):
            async with asyncio.timeout(_REST_SECONDS):
                while status.last_cut is None or runtime.replica.cut < status.last_cut:
                    await asyncio.sleep(0.005)

    def close(self) -> None:
        """End the thread; the current job is abandoned, as a crash would leave it."""
        self._thread.close()
