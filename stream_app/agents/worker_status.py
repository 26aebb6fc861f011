"""Status of one worker: readiness, progress and lag, and how the process ends.

    reader thread      start_end_offsets, step, last_answer_time, last_cut, other_spec,
                       cuts_ignored, intake_fault
    warm-up thread     kernels (compilation)
    event loop         clock_owned, stopping, durable_end_offsets, failure, ending

Each field has one writing thread; readers in other threads see a reference that is replaced whole.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from stream_app.agents.warmup import KernelWarmUp

_SILENCE_SECONDS = 12.0
ASKING_FOR_ENDS = "asking the broker where the log ends"


@dataclass(eq=False)
class WorkerStatus:
    """The status that the threads of a worker share; make it inside a running loop."""

    start_end_offsets: tuple[int, ...] | None = None
    """End offsets of the log when this worker started; None while they are unknown."""
    step: str = ASKING_FOR_ENDS
    last_answer_time: float = field(default_factory=time.monotonic)
    last_cut: int | None = None
    """The newest cut in the log once the clock rests."""
    other_spec: str = ""
    cuts_ignored: int = 0
    intake_fault: str = ""
    """What the configuration of a topic that outsiders write lacks; empty where it is as wanted."""
    kernels: KernelWarmUp = field(default_factory=KernelWarmUp)
    clock_owned: bool = False
    stopping: bool = False
    """The clock rests, and the reader reports the last cut."""
    durable_end_offsets: tuple[int, ...] | None = None
    failure: BaseException | None = None
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    # --- ending ---------------------------------------------------------------------------

    def fail(self, reason: BaseException) -> None:
        """End the process with this reason; the first reason counts."""
        if self.failure is None:
            self.failure = reason
        self.ending.set()

    def fail_from_thread(self, reason: BaseException) -> None:
        """End the process from another thread."""
        self._loop.call_soon_threadsafe(self.fail, reason)

    # --- the broker -----------------------------------------------------------------------

    def note_answer(self) -> None:
        """Note that the broker answered the reader just now."""
        self.last_answer_time = time.monotonic()

    @property
    def broker_unreachable(self) -> bool:
        """Whether the broker has not answered the reader for 12 s.

        False while the reader waits for kernels: it sends the broker no requests then.
        """
        if self.kernels.awaited:
            return False
        return time.monotonic() - self.last_answer_time > _SILENCE_SECONDS

    # --- readiness ------------------------------------------------------------------------

    def await_kernels(self) -> None:
        """Return when the kernels are compiled; raises the failure. Called by the reader."""
        self.kernels.wait()
        self.note_answer()

    def is_replaying(self, ends: Sequence[int]) -> bool:
        """Return whether the state at `ends` lacks records that the log held at the start."""
        return self.start_end_offsets is None or any(
            applied < end for applied, end in zip(ends, self.start_end_offsets, strict=True)
        )

    def waiting_for(self, ends: Sequence[int], reload_reason: str) -> str:
        """Return why a worker with its state at `ends` is not ready; empty when it is."""
        if self.broker_unreachable:
            return "Kafka does not answer"
        if self.intake_fault:
            return self.intake_fault
        if self.kernels.awaited:
            return self.kernels.progress()
        if reload_reason:
            return f"starting over: {reload_reason}"
        if self.start_end_offsets is None:
            return self.step
        if self.is_replaying(ends):
            applied, wanted = sum(ends), sum(self.start_end_offsets)
            return f"replaying the log: {applied:,} of {wanted:,} records applied"
        return ""
