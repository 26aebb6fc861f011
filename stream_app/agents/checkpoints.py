"""Checkpoints of one worker: taken on the event loop at a cut, hashed and written by a thread.

    event loop   at a cut: freeze (copy the changed pages, about 1 ms for 16 MB)
    thread       hash the pages; owner of the clock: rejections told? pages -> manifest -> witness

The owner of the clock checkpoints at the cuts that are marked for it, and at any cut while it
catches up or when none has come for a while. Every other replica takes its digests at marked cuts
once it has caught up, so that all can be compared. What is asked about the state (/state) is
answered from the same copies.

There is one shadow of the state: while the thread works on it, nothing is frozen. A refused write
ends the process; a broker that is away is waited for.
"""

from __future__ import annotations

import asyncio
import queue
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from stream_app.agents.agreement import Digests
from stream_app.agents.changelog import Changelog
from stream_app.agents.rejections import Rejections
from stream_app.agents.runtime import Runtime
from stream_app.checkpoint_line import Line
from stream_app.log.checkpoint import OWNER_BYTES, Disown, Freeze, Own
from stream_app.snapshot import Snapshot
from stream_app.wire import Cut, Witness, encode_message
from stream_app.wire.checkpoints import Manifest

log = structlog.get_logger()


@dataclass(frozen=True)
class _Take:
    """Hash what was frozen, and write it if `write`; `rejections` must have been told before."""

    write: bool
    cut_offset: int
    rejections: int
    began: float


class Checkpoints:
    """The checkpoints of the replica of one runtime; make it inside the running loop."""

    def __init__(
        self,
        runtime: Runtime,
        changelog: Changelog,
        witness: Callable[[bytes], None],
        rejections: Rejections,
        topic_id: str,
        live_keys: Callable[[], list[bytes]],
        worker: str,
    ) -> None:
        self._runtime = runtime
        self._witness = witness
        self._rejections = rejections
        self._topic_id = topic_id
        self._live_keys = live_keys
        self._worker = worker
        self._snapshot = Snapshot(runtime.replica)
        self._line = Line(changelog.produce, changelog.poll, self._may_go_on)
        self._writer = self._line.writer
        self._owned = False
        self._begun = False  # whether the reader has handed over a state
        self._busy = False
        self._free = asyncio.Event()
        self._free.set()
        self._frozen_time = time.monotonic()
        self._asked: list[asyncio.Future[Digests]] = []
        self._known: Digests | None = None
        self._durable_cut = -1
        self._jobs: queue.SimpleQueue[_Take | Own | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="murmurec-checkpoint", daemon=True)
        self._thread.start()

    # --- event loop -----------------------------------------------------------------------

    def own(self) -> None:
        """Become the one who writes: claim a generation, once there is a state to write."""
        self._owned = True
        if self._begun:
            self._jobs.put(Own(secrets.token_bytes(OWNER_BYTES), self._worker))

    def disown(self) -> None:
        """Stop writing, between two records."""
        self._owned = False

    @property
    def wanted(self) -> bool:
        """Whether so much has changed that a checkpoint ought to come before its time."""
        return (
            self._owned
            and not self._busy
            and self._snapshot.dirty_bytes >= self._runtime.settings.checkpoint_bytes
        )

    def at_cut(self, cut: Cut, cut_offset: int) -> None:
        """Freeze the state, which is that of a cut, if anybody wants to have it."""
        if self._busy:
            return
        seconds = time.monotonic() - self._frozen_time
        late = seconds >= 2 * self._runtime.settings.checkpoint_seconds
        marked = cut.checkpoint and not self._runtime.ready_reason()
        write = self._owned and (marked or late) and self._writer.ready
        if write or marked or self._asked:
            self._freeze(write, cut_offset)

    def _freeze(self, write: bool, cut_offset: int) -> None:
        began = time.perf_counter()
        self._snapshot.freeze()
        self._runtime.metrics.checkpoints.frozen(time.perf_counter() - began)
        self._frozen_time = time.monotonic()
        self._busy = True
        self._free.clear()
        self._jobs.put(_Take(write, cut_offset, self._rejections.told, self._frozen_time))

    async def digests(self) -> Digests:
        """Return the digests of the newest cut, or of the next one if a round is under way."""
        replica = self._runtime.replica
        if not self._runtime.mid_round:
            if self._known is not None and self._known.cut == replica.cut:
                return self._known
            await self._free.wait()
            if not self._runtime.mid_round and not self._busy:
                self._freeze(False, self._runtime.cut_offset)
        asked: asyncio.Future[Digests] = self._loop.create_future()
        self._asked.append(asked)
        return await asked

    async def idle(self) -> None:
        """Return when the thread no longer works on the shadow."""
        await self._free.wait()

    def restart(self) -> None:
        """Start over with a replica whose state was replaced; the shadow must be free."""
        self._snapshot = Snapshot(self._runtime.replica)
        self._known = None
        self._begun = True
        if self._owned:
            self.own()

    def told(self) -> dict[str, Any]:
        """Return what /state shows of the checkpoints of this worker."""
        return {
            "owned": self._owned,
            "generation": self._writer.generation,
            "durable_cut": self._durable_cut if self._durable_cut >= 0 else None,
        }

    async def finish(self, seconds: float) -> bool:
        """Write a last checkpoint, if this worker owns the clock and anything has changed."""
        try:
            async with asyncio.timeout(seconds):
                await self._runtime.at_cut()
                await self._free.wait()
                if not self._owned or self._runtime.replica.cut == self._durable_cut:
                    return False
                self._freeze(True, self._runtime.cut_offset)
                await self._free.wait()
                return self._runtime.replica.cut == self._durable_cut
        except TimeoutError:
            return False

    def close(self) -> None:
        """End the thread; what is under way is left, as a crash would leave it."""
        self._ended.set()
        self._jobs.put(None)
        self._thread.join(1.0)

    def _digested(self, digests: Digests) -> None:
        self._known = digests
        replica = self._runtime.replica
        self._runtime.agreement.ours(digests, replica.design.digest, replica.base.digest)
        for asked in self._asked:
            if not asked.done():
                asked.set_result(digests)
        self._asked.clear()

    def _freed(self) -> None:
        self._busy = False
        self._free.set()

    def _durable(self, manifest: Manifest, seconds: float, sent: int) -> None:
        self._durable_cut = manifest.cut
        self._runtime.durable_ends = manifest.ends
        self._runtime.metrics.checkpoints.durable(manifest.cut, time.time(), seconds, sent)

    # --- thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (job := self._jobs.get()) is not None:
                if isinstance(job, Own):
                    self._claim(job)
                else:
                    self._take(job)
        except BaseException as reason:  # noqa: BLE001 - whatever ends the thread ends the process
            self._runtime.fail_from_thread(reason)

    def _claim(self, job: Own) -> None:
        self._writer.step(Disown())
        if self._owned:
            self._line.drive(Own(job.owner, job.worker, self._live_keys()))
            log.info("checkpoint.claimed", generation=self._writer.generation)

    def _take(self, job: _Take) -> None:
        snapshot = self._snapshot
        snapshot.hash()
        digests = Digests(snapshot.cut, snapshot.ends, snapshot.model, snapshot.ledger)
        self._loop.call_soon_threadsafe(self._digested, digests)
        if job.write and self._owned and self._writer.ready:
            self._rejections.wait(job.rejections, self._ended)
            frozen = snapshot.frozen(self._topic_id, job.cut_offset)
            before = self._line.acknowledged_bytes
            manifest = self._line.drive(Freeze(frozen))
            if not self._owned:
                self._writer.step(Disown())
            if manifest is not None:
                self._tell(manifest)
                seconds = time.monotonic() - job.began
                sent = self._line.acknowledged_bytes - before
                self._loop.call_soon_threadsafe(self._durable, manifest, seconds, sent)
        self._loop.call_soon_threadsafe(self._freed)

    def _may_go_on(self) -> bool:
        return self._owned and not self._ended.is_set()

    def _tell(self, manifest: Manifest) -> None:
        """Let the other replicas compare."""
        m = manifest
        told = Witness(m.cut, m.model, m.ledger, m.design, m.base.digest)
        self._witness(encode_message(told))
