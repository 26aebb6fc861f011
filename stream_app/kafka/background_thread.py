"""A thread beside the event loop, with an end: what reads a topic, polls a client or computes.

    start -> work() -> returns, or fail(reason)       end: `ended` is True, and `wait` returns

The thread is a daemon: a process that ends waits for no broker. `work` looks at `ended` between two
steps. What it raises reaches `fail`, in this thread; without `fail` it goes to
`threading.excepthook`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable


class BackgroundThread:
    """Runs `work` once; `name` follows "murmurec-" in stack dumps."""

    def __init__(
        self,
        name: str,
        work: Callable[[], object],
        fail: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._work, self._fail = work, fail
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self.run, name=f"murmurec-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def run(self) -> None:
        """Do the work in the calling thread."""
        try:
            self._work()
        except BaseException as reason:  # whatever ends the work reaches its owner
            if self._fail is None:
                raise
            self._fail(reason)

    @property
    def ended(self) -> bool:
        """Whether the work is to end."""
        return self._ended.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until the work is to end; return whether it is."""
        return self._ended.wait(seconds)

    def end(self) -> None:
        """Let the work end after its step; returns at once, in any thread."""
        self._ended.set()

    def join(self, seconds: float | None = None) -> None:
        """Wait until the thread has ended, so long at most; at once if it was never started."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    async def stop(self, seconds: float) -> None:
        """End the work and wait so long at most for the thread; the event loop, which the work may
        need for its last step, is free meanwhile."""
        self.end()
        await asyncio.to_thread(self.join, seconds)
