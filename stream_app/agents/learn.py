"""The learn agent: the one place where the state changes, one piece of the log at a time.

It runs on the event loop, so a query is answered between two pieces and sees a whole state. While
there are queries, a piece is applied in parts of about a millisecond, those too that were cut and
queued before the first of them; where the log is cut changes no bit of the state. An error in this
agent is a defect or a broken log and ends the process: no event is skipped.

Faust empties the queue of a plain channel after a rebalance, because it fetches its own messages
again. The reader hands each piece over once, so this channel keeps its queue.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import faust
from faust.channels import Channel
from mode.utils.queues import ThrowableQueue

from stream_app.agents.checkpointing.restore import Restored
from stream_app.agents.crash_guard import crash_guard
from stream_app.agents.runtime import Runtime
from stream_app.wire import (
    Aborted,
    Batch,
    CampaignPlan,
    Contract,
    DigestReport,
    Forget,
    Merge,
    Released,
)

# Half of it costs a seventh more for each rating, and a fourth of it a third more.
_PART_RATINGS = 4000
# How long a thread that waits for the interpreter lets another go on. Python's 5 ms make a query
# wait for the decoding of ratings where it is read and where it is answered; to change hands more
# often costs ratings, so it is done while there are queries.
_SWITCH_SECONDS, _QUIET_SWITCH_SECONDS = 0.0005, 0.005


class LogChannel(Channel[Any]):
    """A channel that keeps its queue through a rebalance; `put` waits until the rebalance ends."""

    @property
    def queue(self) -> ThrowableQueue[Any]:
        """The buffer between reader and agent."""
        if self._queue is None:
            self._queue = self.app.FlowControlQueue(maxsize=self.maxsize, clear_on_resume=False)
        return self._queue


def attach(app: faust.App, runtime: Runtime) -> Any:
    """Add the agent and return its channel: the reader puts lists of `Decoded`, or a `Restored`."""
    channel = LogChannel(app, maxsize=8)

    @app.agent(channel, name="learn")
    @crash_guard(runtime.status)
    async def learn(stream: Any) -> None:
        metrics, idle_from = runtime.metrics, time.perf_counter()
        async for pieces in stream:
            metrics.learning_thread("waiting", time.perf_counter() - idle_from)
            if isinstance(pieces, Restored):
                await runtime.restore(pieces)
                pieces.done.set()
                idle_from = time.perf_counter()
                continue
            for piece in pieces:
                if runtime.status.failure is not None:
                    return  # Faust may restart a failed agent, which must not apply anything
                if runtime.replacement.reload is not None:
                    break  # the queued pieces continue a state that is to be replaced
                if piece.batch is not None:
                    await _apply(runtime, piece.batch)
                if piece.cut is not None:
                    runtime.end_round(piece.cut, piece.cut_offset, piece.tails)
                if piece.design is not None:
                    await runtime.redesign(piece.design, takes_over=piece.takes_over)
                match piece.entry:
                    case Contract(version=version):
                        runtime.replica.set_contract(version)
                    case CampaignPlan() | Released() | Aborted() as entry:
                        runtime.follow(entry)
                    case Forget() as entry:
                        runtime.forget(entry)
                    case Merge(ends=ends):
                        runtime.merge(piece.changes, ends)
                    case DigestReport() as entry:
                        runtime.compare(entry)
                await _serve(runtime)
            idle_from = time.perf_counter()

    return channel


async def _apply(runtime: Runtime, batch: Batch) -> None:
    """Apply a batch, in parts while there are queries, which are answered between two of them."""
    rest: Batch | None = batch
    while rest is not None:
        quiet = runtime.status.quiet
        sys.setswitchinterval(_QUIET_SWITCH_SECONDS if quiet else _SWITCH_SECONDS)
        part, rest = (rest, None) if quiet else rest.split(_PART_RATINGS)
        runtime.apply(part)
        if rest is not None:
            await _serve(runtime)


async def _serve(runtime: Runtime) -> None:
    """Let the event loop answer the queries that wait."""
    began = time.perf_counter()
    await asyncio.sleep(0)
    runtime.metrics.learning_thread("serving", time.perf_counter() - began)
