"""One source for all listeners: it is read while there is at least one, and every listener gets the
newest event.

An event that a listener was too slow for is passed over: nothing is queued.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

NextEvent = Callable[[], Awaitable[bytes]]
Source = Callable[[], AbstractAsyncContextManager[NextEvent]]


class Broadcast:
    """Publishes what `source` gives; use it on the event loop.

    `source` is opened for the first listener and closed after the last. Its function returns the
    next event, after as long as it takes.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._listeners = 0
        self._task: asyncio.Task[None] | None = None
        self._newest: tuple[int, bytes] = 0, b""
        self._began = 0
        self._published = asyncio.Event()
        self._closing = set[asyncio.Task[None]]()

    @property
    def reading(self) -> bool:
        """Whether the source is open."""
        return self._task is not None

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[NextEvent]:
        """Give a function that waits for an event newer than the last one it returned.

        It raises what the source raised, and CancelledError once the source was closed.
        """
        if self._task is None:
            self._began = self._newest[0]  # what is older is of an earlier source
            self._task = asyncio.create_task(self._read())
        self._listeners += 1
        task, seen = self._task, self._began

        async def next_event() -> bytes:
            nonlocal seen
            while self._newest[0] <= seen:
                published = asyncio.create_task(self._published.wait())
                await asyncio.wait((published, task), return_when=asyncio.FIRST_COMPLETED)
                published.cancel()
                if task.done():
                    task.result()
            seen, event = self._newest
            return event

        try:
            yield next_event
        finally:
            self._listeners -= 1
            if not self._listeners:
                self._task = None
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
                task.cancel()

    async def closed(self) -> None:
        """Return when the source of listeners that left is closed."""
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def _read(self) -> None:
        async with self._source() as read:
            while True:
                event = await read()
                self._newest = self._newest[0] + 1, event
                published, self._published = self._published, asyncio.Event()
                published.set()
