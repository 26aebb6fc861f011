"""Fail fast: an unexpected exception in a stage or in a thread ends the process with a non-zero
exit code.

Faust acknowledges an event whose agent raised, and restarts the agent: the worker looks alive while
events are lost and all offsets are committed (measured).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from mode import Service

from stream_app.agents.worker_status import WorkerStatus
from stream_app.kafka.background_thread import BackgroundThread


def crash_guard(
    status: WorkerStatus,
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., Awaitable[None]]]:
    """Wrap an agent or a timer so that any exception in it ends the process with that reason."""

    def wrap(stage: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        @wraps(stage)
        async def guarded(*args: Any) -> None:
            try:
                await stage(*args)
            except (asyncio.CancelledError, GeneratorExit):
                raise
            except BaseException as reason:
                status.fail(reason)
                raise

        return guarded

    return wrap


class ThreadService(Service):
    """Runs `_run` in a thread while the application runs, and waits for its end `_JOIN_SECONDS` at
    most; what it raises ends the process."""

    _JOIN_SECONDS = 1.0

    def __init__(self, name: str, status: WorkerStatus) -> None:
        super().__init__()
        self.thread = BackgroundThread(name, self._run, status.fail_from_thread)

    async def on_start(self) -> None:
        """Start the thread."""
        self.thread.start()

    async def on_stop(self) -> None:
        """End the thread."""
        await self.thread.stop(self._JOIN_SECONDS)

    def _run(self) -> None:
        """Work until `thread.ended`."""
        raise NotImplementedError
