"""The learn agent: the one place where the state changes, one piece of the log at a time.

It runs on the event loop, so that a query is answered between two pieces and sees a whole state; a
piece takes a few milliseconds. An error here is a defect or a broken log and ends the process: an
event that was not applied is never passed over.

Faust empties the queue of a plain channel when a rebalance is over, because it would fetch its own
messages again. Ours come from a reader that hands each piece over once, so the channel has a queue
that keeps them.
"""

from __future__ import annotations

import asyncio
from typing import Any

import faust
from faust.channels import Channel
from mode.utils.queues import ThrowableQueue

from stream_app.agents.checkpointing.restore import Restored
from stream_app.agents.crash_guard import crash_guard
from stream_app.agents.runtime import Runtime


class LogChannel(Channel[Any]):
    """A channel of which a rebalance takes nothing; putting waits while one is under way."""

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
        async for pieces in stream:
            if isinstance(pieces, Restored):
                await runtime.restore(pieces)
                pieces.done.set()
                continue
            for piece in pieces:
                if runtime.status.failure is not None:
                    return  # Faust may start a failed agent again; nothing may be applied then
                if runtime.replacement.reload is not None:
                    break  # what is on its way continues a state that is to be replaced
                if piece.batch is not None:
                    runtime.apply(piece.batch)
                if piece.cut is not None:
                    runtime.end_round(piece.cut, piece.cut_offset)
                if piece.forget is not None:
                    runtime.forget(piece.forget)
                if piece.digest_report is not None:
                    runtime.compare(piece.digest_report)
                await asyncio.sleep(0)

    return channel
