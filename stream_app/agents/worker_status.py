"""Status of one worker: readiness, progress and lag, and how the process ends.

    reader thread      start_end_offsets, lag, missing, step, last_answer_time, last_cut,
                       other_spec, cuts_ignored, intake_fault
    warm-up thread     kernels (compilation)
    query thread       last_query_time, queries (from its start on)
    event loop         clock_owned, stopping, durable_end_offsets, failure, ending

Each field has one writing thread; readers in other threads see a reference that is replaced whole.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from stream_app.agents.warmup import KernelWarmUp

_SILENCE_SECONDS = 12.0
_QUIET_SECONDS = 1.0  # without a query
_SAMPLE_SECONDS = 1.0
ASKING_FOR_ENDS = "asking the broker where the log ends"


class Lag:
    """How long the state has lacked records of the log: the age of the oldest known end of the log
    that the state has not reached.

    `behind` begins when that age exceeds `most_seconds` and ends when it is below half of it, so
    that readiness does not alternate under a steady load.
    """

    def __init__(self, most_seconds: float) -> None:
        self._most = most_seconds
        self._unreached: deque[tuple[float, tuple[int, ...]]] = deque()
        self._sampled_time = float("-inf")
        self.seconds = 0.0
        self.behind = False

    def note(self, log_ends: tuple[int, ...], applied: Sequence[int], now: float) -> None:
        """Note the ends of the log and of the state, at most once a second."""
        if now - self._sampled_time < _SAMPLE_SECONDS:
            return
        self._sampled_time = now
        self._unreached.append((now, log_ends))
        while self._unreached and _reached(applied, self._unreached[0][1]):
            self._unreached.popleft()
        self.seconds = now - self._unreached[0][0] if self._unreached else 0.0
        self.behind = self.seconds > self._most / (2 if self.behind else 1)

    def restart(self) -> None:
        """Start over with a state that was replaced."""
        self._unreached.clear()
        self.seconds, self.behind = 0.0, False


def _reached(applied: Sequence[int], ends: Sequence[int]) -> bool:
    return all(at >= end for at, end in zip(applied, ends, strict=True))


@dataclass(eq=False)
class WorkerStatus:
    """The status that the threads of a worker share; make it inside a running loop."""

    start_end_offsets: tuple[int, ...] | None = None
    """End offsets of the log when this worker started; None while they are unknown."""
    lag: Lag = field(default_factory=lambda: Lag(30.0))
    missing: str = ""
    """What a cut names and the log does not hold, and the way out."""
    step: str = ASKING_FOR_ENDS
    last_answer_time: float = field(default_factory=time.monotonic)
    last_query_time: float = float("-inf")
    """When the newest query came (monotonic): pieces are small while there are some."""
    queries: str = ""
    """What the reader of the queries waits for before it has its partitions, else empty."""
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
    _missing_since: float | None = None
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

    # --- queries --------------------------------------------------------------------------

    @property
    def quiet(self) -> bool:
        """Whether nobody has asked for a while: no query then waits for a long piece."""
        return time.monotonic() - self.last_query_time > _QUIET_SECONDS

    # --- the broker -----------------------------------------------------------------------

    def note_answer(self) -> None:
        """Note that the broker answered the reader just now."""
        self.last_answer_time = time.monotonic()

    @property
    def broker_unreachable(self) -> bool:
        """Whether the broker has not answered the reader for 12 s.

        False while the reader waits for kernels: it sends the broker no requests then.
        """
        if self.kernels.waiting:
            return False
        return time.monotonic() - self.last_answer_time > _SILENCE_SECONDS

    # --- readiness ------------------------------------------------------------------------

    def await_kernels(self) -> None:
        """Return when the kernels are compiled; raises the failure. Called by the reader."""
        self.kernels.wait()
        self.note_answer()

    def is_replaying(self, ends: Sequence[int]) -> bool:
        """Return whether the state at `ends` lacks records that the log held at the start."""
        return self.start_end_offsets is None or not _reached(ends, self.start_end_offsets)

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
        if self.missing:
            return self.missing
        if self.is_replaying(ends):
            applied, wanted = sum(ends), sum(self.start_end_offsets)
            return f"replaying the log: {applied:,} of {wanted:,} records applied"
        if self.lag.behind:
            return f"behind the log: it holds records that arrived {self.lag.seconds:.0f} s ago"
        return ""

    def note_missing(self, what: str, now: float) -> None:
        """Note what the log does not hold, empty if nothing; it counts from the second time on,
        since a new leader may know the end of a partition a moment later."""
        if not what:
            self._missing_since, self.missing = None, ""
        elif self._missing_since is None:
            self._missing_since = now
        else:
            self.missing = f"for {now - self._missing_since:.0f} s: {what}"
