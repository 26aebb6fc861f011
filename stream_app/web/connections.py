"""An application on a port, with limits of its connections: no client keeps another one from it.

    waiting      from the connection, or the end of a reply, to the end of the next request's
                 headers: closed after `wait_seconds`
    answering    from there to the end of the view: closed after `answer_seconds`
    streaming    a view that sends until its client leaves: closed after `stream_seconds`; at most
                 `streams` of them
    connections  at most `most`; one more closes the one that has waited longest, or else the one
                 that is answered longest, or else the oldest stream

Without a limit, clients that never finish their headers hold every descriptor of the process, and
asyncio then retries to accept on the event loop that answers. One more connection is accepted and
an old one closed, instead of being refused: otherwise a client that holds all of them would make
/livez fail, and the process would be restarted for it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.web_request import BaseRequest

from stream_app.web import NOT_UNDERSTOOD
from stream_app.web.refusals import SECURITY, refused

BACKLOG = 128
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Limits:
    """How many connections are open at once, and how long each may take.

    The loop accepts up to `BACKLOG` connections at a time and reads from them in the next turn or
    the one after it: with room for three times as many, a request that is sent at once is read
    before its connection is the oldest one, however many are opened after it.
    """

    most: int = 3 * BACKLOG
    wait_seconds: float = 10.0
    answer_seconds: float = 30.0
    streams: int = 100
    stream_seconds: float = 600.0


class _Connection(asyncio.Protocol):
    """One connection: passes everything on to aiohttp's protocol; closed at the time `until`."""

    def __init__(self, connections: Connections, inner: Any) -> None:
        self._connections, self._inner = connections, inner
        self._transport: asyncio.Transport | None = None
        self.until = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.opened(transport, self)
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
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

    def abort(self) -> None:
        """Close the connection now, whatever is still to be sent."""
        if self._transport is not None:
            self._transport.abort()


class _Group:
    """Connections that have equally long, so the oldest is the first that has to end: one timer is
    enough for all of them."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._members: dict[asyncio.BaseTransport, _Connection] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._members)

    def add(self, transport: asyncio.BaseTransport, connection: _Connection) -> None:
        """Add a connection, which is closed after the seconds of the group."""
        connection.until = asyncio.get_running_loop().time() + self._seconds
        self._members[transport] = connection
        if self._timer is None:
            self._arm()

    def remove(self, transport: asyncio.BaseTransport) -> _Connection | None:
        """Remove a connection and return it; None where it is not in this group."""
        return self._members.pop(transport, None)

    def close_oldest(self) -> None:
        """Close the connection that is here longest."""
        self._members.pop(next(iter(self._members))).abort()

    def _arm(self) -> None:
        oldest = next(iter(self._members.values()), None)
        self._timer = None
        if oldest is not None:
            self._timer = asyncio.get_running_loop().call_at(oldest.until, self._expire)

    def _expire(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._members and next(iter(self._members.values())).until <= now:
            self.close_oldest()
        self._arm()


class Connections:
    """The open connections of one server, those that have waited longest first."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waiting = _Group(limits.wait_seconds)
        self._answering = _Group(limits.answer_seconds)
        self._streaming = _Group(limits.stream_seconds)
        self.serve: Callable[[], asyncio.Protocol] | None = None  # what the listener accepts with

    def __len__(self) -> int:
        return len(self._waiting) + len(self._answering) + len(self._streaming)

    def protocol(self, inner: Any) -> asyncio.Protocol:
        """Return the protocol of a new connection that aiohttp serves by `inner`."""
        return _Connection(self, inner)

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection to the application from inside of its process: it has no address."""
        assert self.serve is not None, "the listener has started"
        client, server = socket.socketpair()
        await asyncio.get_running_loop().connect_accepted_socket(self.serve, server)
        return await asyncio.open_connection(sock=client)

    def opened(self, transport: asyncio.BaseTransport, connection: _Connection) -> None:
        """Add a connection; close the oldest where that is one too many."""
        if len(self) >= self._limits.most:
            next(filter(len, (self._waiting, self._answering, self._streaming))).close_oldest()
        self._waiting.add(transport, connection)

    def closed(self, transport: asyncio.BaseTransport) -> None:
        """Remove a connection."""
        for group in (self._waiting, self._answering, self._streaming):
            group.remove(transport)

    def streams(self, request: web.Request) -> bool:
        """Give the connection of a request the time of a stream; False where there are as many
        streams as there may be. Call it in the view, before the reply begins."""
        if len(self._streaming) >= self._limits.streams:
            return False
        _move(request.transport, self._answering, self._streaming)
        return True

    def end_streams(self) -> None:
        """Close every stream: none of them ends by itself."""
        while self._streaming:
            self._streaming.close_oldest()

    @web.middleware
    async def limited(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Give the connection of a request the time of an answer while its view runs."""
        _move(request.transport, self._waiting, self._answering)
        try:
            return await handler(request)
        finally:
            for group in (self._answering, self._streaming):
                _move(request.transport, group, self._waiting)


def _move(transport: asyncio.BaseTransport | None, source: _Group, target: _Group) -> None:
    # A connection that was closed meanwhile is in no group.
    if transport is not None and (connection := source.remove(transport)) is not None:
        target.add(transport, connection)


class _HttpHandler(web.RequestHandler):
    """One connection as aiohttp serves it, but for requests that are not HTTP: aiohttp answers
    those with a part of the request, and logs it with the client's address."""

    __slots__ = ()

    def handle_error(
        self,
        request: BaseRequest,  # noqa: ARG002 (the library names the arguments)
        status: int = 500,
        exc: BaseException | None = None,  # noqa: ARG002
        message: str | None = None,  # noqa: ARG002
    ) -> web.StreamResponse:
        """Return the refusal of a request that cannot be read."""
        reply = refused(status, "request", NOT_UNDERSTOOD)
        reply.headers.update(SECURITY)
        reply.force_close()
        return reply


def _silent() -> logging.Logger:
    """Return a logger without output: what aiohttp writes has addresses and parts of requests."""
    logger = logging.Logger("murmurec.web")
    logger.addHandler(logging.NullHandler())
    logger.setLevel(logging.CRITICAL + 1)
    return logger


class Listener:
    """Serves an application. `linger_seconds`: for a client that still sends when it is refused;
    `end_seconds`: for views that still run when the listener stops."""

    def __init__(
        self,
        app: web.Application,
        connections: Connections,
        *,
        linger_seconds: float,
        end_seconds: float,
    ) -> None:
        self._connections, self._linger = connections, linger_seconds
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=end_seconds)
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port; raises OSError for an address that cannot be bound."""
        await self._runner.setup()
        manager, loop, silent = self._runner.server, asyncio.get_running_loop(), _silent()
        assert manager is not None, "set up above"

        def protocol() -> asyncio.Protocol:
            handler = _HttpHandler(
                manager,
                loop=loop,
                logger=silent,
                access_log=silent,
                lingering_time=self._linger,
                auto_decompress=False,
            )
            return self._connections.protocol(handler)

        self._connections.serve = protocol
        self._server = await loop.create_server(protocol, host, port, backlog=BACKLOG)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening, then end the views."""
        if self._server is not None:
            self._server.close()
        await self._runner.cleanup()
