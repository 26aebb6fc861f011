"""Faust's web server with limits, so that no client keeps another one from it.

    waiting      from the connection, or the end of a reply, to the end of the next request's
                 headers: closed after `wait_seconds`
    answering    from there to the end of the view: closed after `answer_seconds`
    connections  at most `most`; one more closes the one that has waited longest, or else the one
                 that is answered longest

Without a limit, clients that never finish their headers hold every descriptor of the process, and
asyncio then retries to accept on the event loop that learns. One more connection is accepted and an
old one closed, instead of being refused: otherwise a client that holds all of them would make
/livez fail, and the worker would be restarted for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import faust
from aiohttp import web
from faust.web.drivers.aiohttp import Web

_BACKLOG = 128
_END_SECONDS = 0.5  # for views that still run at the end
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Limits:
    """How many connections are open at once, and how long each may take.

    The loop accepts up to `_BACKLOG` connections at a time and reads from them in the next turn or
    the one after it: with room for three times as many, a request that is sent at once is read
    before its connection is the oldest one, however many are opened after it.
    """

    most: int = 3 * _BACKLOG
    wait_seconds: float = 10.0
    answer_seconds: float = 30.0


class _Connection(asyncio.Protocol):
    """One connection: passes everything on to aiohttp's protocol and has a deadline."""

    def __init__(self, connections: Connections, inner: Any) -> None:
        self._connections, self._inner = connections, inner
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.opened(transport, self)
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self._transport is not None:
            self._connections.closed(self._transport)
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return bool(self._inner.eof_received())

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def close_after(self, seconds: float) -> None:
        """Close the connection after so many seconds, in place of an earlier deadline."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = asyncio.get_running_loop().call_later(seconds, self.abort)

    def abort(self) -> None:
        """Close the connection now, whatever is still to be sent."""
        if self._transport is not None:
            self._transport.abort()


class Connections:
    """The open connections of one server, those that have waited longest first."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waiting: dict[asyncio.BaseTransport, _Connection] = {}
        self._answering: dict[asyncio.BaseTransport, _Connection] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._answering)

    def protocol(self, inner: Any) -> asyncio.Protocol:
        """Return the protocol of a new connection that aiohttp serves by `inner`."""
        return _Connection(self, inner)

    def opened(self, transport: asyncio.BaseTransport, connection: _Connection) -> None:
        """Add a connection; close the oldest where that is one too many."""
        if len(self) >= self._limits.most:
            oldest = self._waiting or self._answering
            first = next(iter(oldest))
            oldest.pop(first).abort()
        self._waiting[transport] = connection
        connection.close_after(self._limits.wait_seconds)

    def closed(self, transport: asyncio.BaseTransport) -> None:
        """Remove a connection."""
        self._waiting.pop(transport, None)
        self._answering.pop(transport, None)

    @web.middleware
    async def limited(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Give the connection of a request the time of an answer while its view runs."""
        self._move(request.transport, self._waiting, self._answering, self._limits.answer_seconds)
        try:
            return await handler(request)
        finally:
            self._move(request.transport, self._answering, self._waiting, self._limits.wait_seconds)

    @staticmethod
    def _move(
        transport: asyncio.BaseTransport | None,
        source: dict[asyncio.BaseTransport, _Connection],
        target: dict[asyncio.BaseTransport, _Connection],
        seconds: float,
    ) -> None:
        # A connection that was closed meanwhile is in neither table.
        if transport is not None and (connection := source.pop(transport, None)) is not None:
            target[transport] = connection
            connection.close_after(seconds)


class LimitedWeb(Web):
    """Faust's aiohttp server on a listener of its own; `middlewares` run before every view."""

    def __init__(
        self, app: faust.App, limits: Limits, middlewares: tuple[Any, ...] = (), **kwargs: Any
    ) -> None:
        super().__init__(app, **kwargs)
        self.connections = Connections(limits)
        self.web_app.middlewares.extend((self.connections.limited, *middlewares))
        self._runner = web.AppRunner(
            self.web_app,
            access_log=None,
            lingering_time=0,
            handler_cancellation=True,
            shutdown_timeout=_END_SECONDS,
        )
        self._listener: asyncio.Server | None = None

    async def start_server(self) -> None:
        """Listen; raises OSError for an address that cannot be bound."""
        await self._runner.setup()
        serve = self._runner.server
        assert serve is not None, "set up above"
        conf = self.app.conf
        self._listener = await asyncio.get_running_loop().create_server(
            lambda: self.connections.protocol(serve()),
            conf.web_bind,
            conf.web_port,
            backlog=_BACKLOG,
        )

    async def stop_server(self) -> None:
        """Stop listening, then end the views."""
        if self._listener is not None:
            self._listener.close()
        await super().stop_server()
