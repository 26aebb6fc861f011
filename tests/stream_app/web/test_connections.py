"""Streams under the limits of connections: kept open, bounded, and ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from stream_app.broker.local import free_ports
from stream_app.web.connections import Connections, Limits
from tests.fixtures.waiting import PATIENCE_SECONDS

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def served(limits: Limits) -> AsyncIterator[tuple[Connections, int]]:
    """Serve /stream, which sends a line whenever the answer's time has passed."""
    connections, port = Connections(limits), free_ports(1)[0]

    async def stream(request: web.Request) -> web.StreamResponse:
        if not connections.streams(request):
            return web.Response(status=503)
        reply = web.StreamResponse()
        await reply.prepare(request)
        while True:
            await reply.write(b"line\n")
            await asyncio.sleep(limits.answer_seconds)

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="page")

    app = web.Application(middlewares=[connections.limited])
    app.router.add_get("/stream", stream)
    app.router.add_get("/", page)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(
        lambda: connections.protocol(runner.server()), "127.0.0.1", port
    )
    try:
        yield connections, port
    finally:
        listener.close()
        await runner.cleanup()


async def asked(port: int, path: str) -> tuple[int, Stream]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    async with asyncio.timeout(PATIENCE_SECONDS):
        head = await reader.readuntil(b"\r\n\r\n")
    return int(head.split()[1]), (reader, writer)


async def lines(stream: Stream, most: int) -> int:
    """Return how many lines come before the connection is closed, up to so many."""
    found = 0
    async with asyncio.timeout(PATIENCE_SECONDS):
        try:
            while found < most and (line := await stream[0].readline()):
                found += line == b"line\n"
        except ConnectionError:
            pass
    return found


def test_a_stream_outlives_the_time_of_an_answer():
    async def run() -> None:
        async with served(Limits(8, 1000, 0.02, 2, 1000)) as (_, port):
            status, stream = await asked(port, "/stream")
            assert (status, await lines(stream, 20)) == (200, 20)
            stream[1].close()

    asyncio.run(run())


def test_a_stream_ends_after_its_own_time():
    async def run() -> None:
        async with served(Limits(8, 1000, 0.02, 2, 0.1)) as (connections, port):
            _, stream = await asked(port, "/stream")
            assert await lines(stream, 1000) < 1000
            stream[1].close()
            assert len(connections) == 0

    asyncio.run(run())


def test_there_are_so_many_streams_and_no_more():
    async def run() -> None:
        async with served(Limits(8, 1000, 0.02, 2, 1000)) as (_, port):
            found = [await asked(port, "/stream") for _ in range(4)]
            assert [status for status, _ in found] == [200, 200, 503, 503]
            found[0][1][1].transport.abort()
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (last := await asked(port, "/stream"))[0] != 200:
                    last[1][1].close()
            for _, stream in (*found, last):
                stream[1].close()

    asyncio.run(run())


def test_streams_are_closed_last_where_connections_are_many():
    async def run() -> None:
        async with served(Limits(8, 1000, 0.02, 4, 1000)) as (connections, port):
            streams = [(await asked(port, "/stream"))[1] for _ in range(4)]
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(50)]
            assert (await asked(port, "/"))[0] == 200
            assert len(connections) == 8
            for stream in streams:
                assert await lines(stream, 20) == 20
            connections.end_streams()
            for stream in streams:
                assert await lines(stream, 10**6) < 10**6
            for _, writer in (*streams, *idle):
                writer.close()

    asyncio.run(run())
