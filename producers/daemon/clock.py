"""Time as the program sees it: a clock, and waiting for descriptors, for a while, or for a signal.

A test passes a clock of its own, on which nothing takes time.
"""

from __future__ import annotations

import math
import select
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol


class Clock(Protocol):
    """The wall clock, and a pause."""

    def now(self) -> float:
        """Return the seconds since 1970."""

    def wait(self, seconds: float, files: Sequence[int]) -> None:
        """Return after so many seconds, or as soon as one of the descriptors is readable."""


class SystemClock:
    """The clock of the system; `stopped` after a signal, which also ends a wait."""

    def __init__(self) -> None:
        self.stopped = False
        self._woken, self._waker = socket.socketpair()
        for end in (self._woken, self._waker):
            end.setblocking(False)

    def now(self) -> float:
        """Return the seconds since 1970."""
        return time.time()

    def wait(self, seconds: float, files: Sequence[int]) -> None:
        """Return after so many seconds, at a signal, or when a descriptor is readable."""
        if not self.stopped:
            waiting = select.poll()  # unlike select, it takes descriptors above 1023
            for file in (*files, self._woken.fileno()):
                waiting.register(file, select.POLLIN)
            waiting.poll(math.ceil(max(0.0, seconds) * 1000))

    @contextmanager
    def until_signalled(self) -> Iterator[SystemClock]:
        """Within the block SIGTERM and SIGINT set `stopped` instead of ending the process."""

        def stop(*_: Any) -> None:
            self.stopped = True

        before = {each: signal.signal(each, stop) for each in (signal.SIGTERM, signal.SIGINT)}
        woken = signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        try:
            yield self
        finally:
            signal.set_wakeup_fd(woken)
            for number, handler in before.items():
                signal.signal(number, handler)
            self._woken.close()
            self._waker.close()
