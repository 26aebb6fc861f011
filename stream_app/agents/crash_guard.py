"""Fail fast: an unexpected exception in a stage ends the process with a non-zero exit code.

Faust acknowledges an event whose agent raised, and restarts the agent: the worker looks alive while
events are lost and all offsets are committed (measured).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from stream_app.agents.worker_status import WorkerStatus


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
