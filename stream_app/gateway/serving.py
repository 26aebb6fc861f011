"""Running a gateway until a signal ends it: listen, serve, stop accepting, flush, end."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog
from aiohttp import web
from aiohttp.web_request import BaseRequest

from stream_app.errors import UserError
from stream_app.gateway.application import build
from stream_app.gateway.context import Gateway
from stream_app.gateway.contract.reasons import OF_HTTP, HttpReason
from stream_app.gateway.headers import SECURITY
from stream_app.gateway.refusals import refused
from stream_app.web.connections import BACKLOG

log = structlog.get_logger()
_END_SECONDS = 1.0  # for views that still run once what waits for Kafka was answered
_LINGER_SECONDS = 0.5  # for a client that still sends when it is refused
_STOP_SECONDS = 4.5


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
        reply = refused(status, HttpReason.REQUEST, OF_HTTP[HttpReason.REQUEST])
        reply.headers.update(SECURITY)
        reply.force_close()
        return reply


def _silent() -> logging.Logger:
    """Return a logger without output: what aiohttp writes has addresses and parts of requests."""
    logger = logging.Logger("murmurec.gateway")
    logger.addHandler(logging.NullHandler())
    logger.setLevel(logging.CRITICAL + 1)
    return logger


@asynccontextmanager
async def serving(gateway: Gateway) -> AsyncIterator[str]:
    """Serve for the length of the block; gives the gateway's address. Raises UserError for an
    address that cannot be bound."""
    settings, loop = gateway.settings, asyncio.get_running_loop()
    runner = web.AppRunner(build(gateway), handler_cancellation=True, shutdown_timeout=_END_SECONDS)
    await runner.setup()
    server = runner.server
    assert server is not None, "set up above"
    silent = _silent()

    def protocol() -> asyncio.Protocol:
        handler = _Handler(
            server,
            loop=loop,
            logger=silent,
            access_log=silent,
            lingering_time=_LINGER_SECONDS,
            auto_decompress=False,
        )
        return gateway.connections.protocol(handler)

    try:
        listener = await loop.create_server(protocol, settings.host, settings.port, backlog=BACKLOG)
    except OSError as error:
        await runner.cleanup()
        raise UserError(
            f"gateway_host = {settings.host}, gateway_port = {settings.port}: "
            f"{error.strerror or error}; give --port another number, or 0 for any free port"
        ) from None
    port = listener.sockets[0].getsockname()[1]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    try:
        yield f"http://{host}:{port}"
    finally:
        listener.close()
        await runner.cleanup()


async def run(
    gateway: Gateway,
    started: Callable[[str], None],
    stopping: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or SIGINT; `started` receives the address, `stopping` is called when the
    end begins. Raises UserError where only another process can go on."""
    ended, loop, failed = asyncio.Event(), asyncio.get_running_loop(), gateway.readiness.failed
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with serving(gateway) as address:
        log.info("gateway.started", address=address)
        started(address)
        # What is loaded by now stays: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        waits = [asyncio.create_task(event.wait()) for event in (ended, failed)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for task in waits:
            task.cancel()
        log.info("gateway.stopping")
        stopping()
    if gateway.readiness.failure is not None:
        raise UserError(gateway.readiness.failure)


def end_in_time(gateway: Gateway) -> None:
    """End the process even while a thread waits for Kafka; what was confirmed is answered then."""

    def end() -> None:
        log.warning("gateway.stopped_late")
        os._exit(0 if gateway.readiness.failure is None else 1)

    timer = threading.Timer(_STOP_SECONDS, end)
    timer.daemon = True
    timer.start()
