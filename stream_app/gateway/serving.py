"""Running a gateway until a signal ends it: listen, serve, stop accepting, flush, end."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog

from stream_app.errors import UserError
from stream_app.gateway.context import Gateway
from stream_app.gateway.http_application import build
from stream_app.gateway.relayed import relay
from stream_app.web.connections import Listener

Served = Gateway | relay.Relay

log = structlog.get_logger()
_END_SECONDS = 1.0  # for views that still run once what waits for Kafka was answered
_LINGER_SECONDS = 0.5  # for a client that still sends when it is refused
_STOP_SECONDS = 4.5


@asynccontextmanager
async def serving(gateway: Served) -> AsyncIterator[str]:
    """Serve for the length of the block; gives the gateway's address. Raises UserError for an
    address that cannot be bound."""
    settings = gateway.settings
    listener = Listener(
        build(gateway) if isinstance(gateway, Gateway) else relay.build(gateway),
        gateway.connections,
        linger_seconds=_LINGER_SECONDS,
        end_seconds=_END_SECONDS,
    )
    try:
        port = await listener.start(settings.gateway_host, settings.gateway_port)
    except OSError as error:
        await listener.stop()
        raise UserError(
            f"gateway_host = {settings.gateway_host}, gateway_port = {settings.gateway_port}: "
            f"{error.strerror or error}; give --port another number, or 0 for any free port"
        ) from None
    host = f"[{settings.gateway_host}]" if ":" in settings.gateway_host else settings.gateway_host
    try:
        yield f"http://{host}:{port}"
    finally:
        await listener.stop()


async def run(
    gateway: Served,
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


def end_in_time(gateway: Served) -> None:
    """End the process even while a thread waits for Kafka; what was confirmed is answered then."""

    def end() -> None:
        log.warning("gateway.stopped_late")
        os._exit(0 if gateway.readiness.failure is None else 1)

    timer = threading.Timer(_STOP_SECONDS, end)
    timer.daemon = True
    timer.start()
