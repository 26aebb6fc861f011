"""GET /stream: the public numbers of the stream, as server-sent events.

    retry: 3000
    event: status        once a second; between two at most as long as a worker may take to answer
    data: {"kafka":true,"worker":true,"ready":true,...}         `bodies.StreamStatus`

A worker is asked while there is a listener, once for all of them, and every listener gets the
newest event: one that it was too slow for is skipped. A listener that does not read is dropped: its
browser connects again, and nothing is kept for it. Without a worker the events say so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING

import aiohttp
import msgspec
import structlog
from aiohttp import web

from stream_app.gateway.contract.bodies import StreamStatus
from stream_app.gateway.reads.statistics import (
    Rate,
    WorkerPages,
    ratings_of,
    status_of,
)
from stream_app.web.refusals import refused

if TYPE_CHECKING:
    from stream_app.gateway.context import Gateway, Views

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


log = structlog.get_logger()
EVERY_SECONDS = 1.0
# What may wait in the process for a listener beside what the system holds: some 20 events.
MOST_WAITING_BYTES = 8192
_BEGINNING = b"retry: 3000\n\n"
_NO_WORKER = "a worker"


class StatusReader:
    """Makes the events: one read of the worker's pages each."""

    def __init__(self, gateway: Gateway, every_seconds: float) -> None:
        self._gateway, self._every = gateway, every_seconds
        settings = gateway.settings
        worker = settings.gateway_worker or f"http://127.0.0.1:{settings.admin_port}"
        self._pages = WorkerPages(worker.rstrip("/"), settings.admin_token)
        self._problem = ""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[NextEvent]:
        """Give the function that returns the next event; the first at once."""
        rate, due = Rate(), 0.0
        now = asyncio.get_running_loop().time
        async with aiohttp.ClientSession(auto_decompress=False) as session:

            async def next_event() -> bytes:
                nonlocal due
                await asyncio.sleep(max(0.0, due - now()))
                due = now() + self._every
                status = await self._status(session, rate, now())
                return b"event: status\ndata: %s\n\n" % msgspec.json.encode(status)

            yield next_event

    async def _status(self, session: aiohttp.ClientSession, rate: Rate, now: float) -> StreamStatus:
        waiting_for = self._gateway.readiness.waiting_for
        kafka = waiting_for is None
        try:
            numbers, workers_wait = await self._pages.read(session)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            rate.per_second(None, now)
            self._note(f"{type(error).__name__}: {error}")
            reason = waiting_for or _NO_WORKER
            return StreamStatus(kafka=kafka, worker=False, ready=False, waiting_for=reason)
        self._note("")
        per_second = rate.per_second(ratings_of(numbers), now)
        waiting = waiting_for or workers_wait
        return status_of(numbers, kafka=kafka, waiting_for=waiting, rate=per_second)

    def _note(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.warning("gateway.no_worker", problem=problem)
        self._problem = problem


def attach(app: web.Application, gateway: Gateway) -> Views:
    """Return the page."""
    broadcast = Broadcast(StatusReader(gateway, EVERY_SECONDS).opened)

    async def stream(request: web.Request) -> web.StreamResponse:
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        if request.method == "HEAD":
            return web.Response(headers=headers)
        if not gateway.connections.streams(request):
            return refused(
                503, "streams", "as many pages as may watch do so: try again", Retry_After="10"
            )
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        with suppress(ConnectionError):  # the listener has left
            await response.write(_BEGINNING)
            async with broadcast.listening() as next_event:
                while not _is_behind(request):
                    await response.write(await next_event())
        return response

    async def end(_: web.Application) -> None:
        await broadcast.closed()

    app.on_cleanup.append(end)
    return {"stream": stream}


def _is_behind(request: web.Request) -> bool:
    """Return whether a listener has left too much unread; its connection is closed then."""
    transport = request.transport
    if transport is None:
        return True
    assert isinstance(transport, asyncio.WriteTransport)
    if transport.get_write_buffer_size() <= MOST_WAITING_BYTES:
        return False
    transport.abort()
    return True
