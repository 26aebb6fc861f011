"""The processes of a worker of several shards: one `murmurec worker --shard s` for each it holds.

    ends with 1 or 2     refused, and said why: the worker ends with the same exit code
    ends otherwise       killed, or its name was taken: started again, after 1, 2, 4 .. 30 s

A process has its own session, so that an interrupt of the terminal reaches the worker alone, and is
killed by the kernel with the thread that starts it (`broker/local.py`).
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Collection, Sequence

import structlog

from stream_app.broker.local import leashed

log = structlog.get_logger()
STOP_SECONDS = 5.5  # a worker ends itself after 4.5
_REFUSED = (1, 2)
_MOST_PAUSE_SECONDS = 30.0
_STEADY_SECONDS = 60.0  # after which an end is the first again

Command = Callable[[int], Sequence[str]]


class Children:
    """The processes by shard; for one thread, which outlives them."""

    def __init__(self, command: Command, now: Callable[[], float] = time.monotonic) -> None:
        self._command, self._now = command, now
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._begun: dict[int, float] = {}
        self._ends: dict[int, int] = {}
        self._due: dict[int, float] = {}  # of those that ended, when they are started again

    @property
    def shards(self) -> list[int]:
        """The shards that are held."""
        return sorted({*self._running, *self._due})

    def start(self, shards: Collection[int]) -> None:
        """Start a process for each of these shards that has none."""
        for shard in sorted(set(shards) - set(self._running)):
            self._due.pop(shard, None)
            process = subprocess.Popen(
                leashed(self._command(shard)), stdin=subprocess.DEVNULL, start_new_session=True
            )
            self._running[shard], self._begun[shard] = process, self._now()
            log.info("shard.started", shard=shard, process=process.pid)

    def stop(self, shards: Collection[int]) -> None:
        """End these processes and wait; one that does not end in time is killed."""
        for shard in shards:
            self._due.pop(shard, None)
            self._ends.pop(shard, None)
        ending = {each: self._running.pop(each) for each in shards if each in self._running}
        for process in ending.values():
            process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        for shard, process in ending.items():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.warning("shard.stopped_late", shard=shard)
                process.kill()
                process.wait()
            log.info("shard.stopped", shard=shard)

    def look(self) -> int | None:
        """Start again what was killed, when it is due; return the exit code of a process that was
        refused, None without one."""
        for shard, process in list(self._running.items()):
            code = process.poll()
            if code in _REFUSED:
                return code
            if code is not None:
                self._ended(shard, code)
        self.start([shard for shard, due in self._due.items() if due <= self._now()])
        return None

    def _ended(self, shard: int, code: int) -> None:
        steady = self._now() - self._begun[shard] >= _STEADY_SECONDS
        ends = 0 if steady else self._ends.get(shard, 0)
        pause = min(2.0**ends, _MOST_PAUSE_SECONDS)
        log.warning("shard.ended", shard=shard, code=code, again_seconds=pause)
        del self._running[shard]
        self._ends[shard], self._due[shard] = ends + 1, self._now() + pause
