"""Running the interface until a signal ends it: listen, answer, stop accepting, end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_address

import structlog

from producers.edge.http.edge_application import build
from producers.edge.http.site import Edge
from stream_app.errors import UsageError, UserError
from stream_app.web.connections import Listener

log = structlog.get_logger()
_END_SECONDS = 2.0  # for answers that are under way
_LINGER_SECONDS = 0.5  # for a client that still sends when it is refused


def check_open(host: str, token: str | None) -> None:
    """Raise UsageError for an address that a network reaches, without a token."""
    try:
        is_here = ip_address(host).is_loopback
    except ValueError:
        is_here = host == "localhost"
    if token is None and not is_here:
        raise UsageError(
            f"--host {host}: every client that reaches it could read and delete what users did; "
            "set MURMUREC_EDGE_TOKEN (openssl rand -hex 32), or leave --host out"
        )


@asynccontextmanager
async def serving(edge: Edge, host: str, port: int) -> AsyncIterator[str]:
    """Serve for the length of the block; gives the address. Raises UserError for an address that
    cannot be bound."""
    listener = Listener(
        build(edge),
        edge.connections,
        linger_seconds=_LINGER_SECONDS,
        end_seconds=_END_SECONDS,
    )
    try:
        bound = await listener.start(host, port)
    except OSError as error:
        await listener.stop()
        raise UserError(
            f"--host {host} --port {port}: {error.strerror or error}; give --port another number, "
            "or 0 for any free one"
        ) from None
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{bound}"
    finally:
        await listener.stop()


async def run(
    edge: Edge,
    host: str,
    port: int,
    started: Callable[[str], None],
    failure: Callable[[], str | None] = lambda: None,
) -> None:
    """Serve until SIGTERM or SIGINT, or until `failure`, asked each second, gives a sentence, which
    is raised as UserError. `started` receives the address."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with serving(edge, host, port) as address:
        log.info("edge.started", address=address)
        started(address)
        while not ended.is_set():
            if (sentence := failure()) is not None:
                raise UserError(sentence)
            try:
                await asyncio.wait_for(ended.wait(), 1.0)
            except TimeoutError:
                continue
        log.info("edge.stopping")
