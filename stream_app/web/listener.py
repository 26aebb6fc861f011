"""An application on a port: listen, serve under the limits of connections, stop, end the views."""

from __future__ import annotations

import asyncio
import logging

from aiohttp import web
from aiohttp.web_request import BaseRequest

from stream_app.web import NOT_UNDERSTOOD
from stream_app.web.connections import BACKLOG, Connections
from stream_app.web.replies import SECURITY, refused


class _Handler(web.RequestHandler):
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
            handler = _Handler(
                manager,
                loop=loop,
                logger=silent,
                access_log=silent,
                lingering_time=self._linger,
                auto_decompress=False,
            )
            return self._connections.protocol(handler)

        self._server = await loop.create_server(protocol, host, port, backlog=BACKLOG)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening, then end the views."""
        if self._server is not None:
            self._server.close()
        await self._runner.cleanup()
