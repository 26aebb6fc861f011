"""GET /stream: the public numbers of the stream, as server-sent events.

    retry: 3000
    event: status        once a second; between two at most as long as a worker may take to answer
    data: {"kafka":true,"worker":true,"ready":true,...}         `bodies.StreamStatus`

A worker is asked while there is a listener, once for all of them. A listener that does not read is
dropped: its browser connects again, and nothing is kept for it. Without a worker the events say so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import aiohttp
import msgspec
import structlog
from aiohttp import web

from stream_app.gateway.contract.bodies import StreamStatus
from stream_app.gateway.reads.broadcast import Broadcast, NextEvent
from stream_app.gateway.reads.documents import parameters_refused
from stream_app.gateway.reads.statistics import (
    Rate,
    WorkerPages,
    ratings_of,
    status_of,
)
from stream_app.web.replies import refused

if TYPE_CHECKING:
    from stream_app.gateway.context import Gateway

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
        self._pages = WorkerPages(gateway.settings.worker_url, gateway.settings.worker_token)
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


def attach(app: web.Application, gateway: Gateway) -> None:
    """Add the page."""
    broadcast = Broadcast(StatusReader(gateway, EVERY_SECONDS).opened)

    async def stream(request: web.Request) -> web.StreamResponse:
        refusal = parameters_refused(request)
        if refusal is not None:
            return refusal
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
    app.router.add_get("/stream", stream)


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
