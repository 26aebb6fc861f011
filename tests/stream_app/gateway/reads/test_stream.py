"""The stream of numbers over a real connection; the worker is a server of the test."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from stream_app.gateway.contract.bodies import StreamStatus
from stream_app.gateway.reads import statistics, stream
from stream_app.web.connections import Connections
from tests.fixtures.gateways import Running, exchange, running
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.stream_app.gateway.reads.test_statistics import exposition

TOKEN = "as-secret-as-a-test-can-be"
View = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def numbers(_: web.Request) -> web.StreamResponse:
    return web.Response(text=exposition(measured=True))


class Worker:
    """The two pages, as the test sets them, and the requests for them."""

    def __init__(self) -> None:
        self.metrics: View = numbers
        self.waiting_for: str | None = None
        self.asked: list[tuple[str, str | None]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path, request.headers.get("Authorization")))
        if request.path == "/readyz":
            status = 503 if self.waiting_for else 200
            body = {"ready": not self.waiting_for, "waiting_for": self.waiting_for}
            return web.json_response(body, status=status)
        return await self.metrics(request)


@asynccontextmanager
async def serving(worker: Worker) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/{page}", worker.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield site.name
    finally:
        await runner.cleanup()


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send an event every 5 ms, and wait a fifth of a second for a worker that hangs."""
    monkeypatch.setattr(stream, "EVERY_SECONDS", 0.005)
    monkeypatch.setattr(statistics, "_SECONDS", 0.2)


def runs(check: Callable[[Running, Worker], Awaitable[None]]) -> Worker:
    worker = Worker()

    async def run() -> None:
        async with (
            serving(worker) as url,
            running(gateway_worker=url, admin_token=TOKEN) as at,
            asyncio.timeout(PATIENCE_SECONDS),
        ):
            await check(at, worker)

    asyncio.run(run())
    return worker


async def begin(reply: aiohttp.ClientResponse) -> None:
    """Read the beginning of a stream."""
    assert (reply.status, reply.content_type) == (200, "text/event-stream")
    assert reply.headers["Cache-Control"] == "no-store"
    assert await reply.content.readline() == b"retry: 3000\n"
    assert await reply.content.readline() == b"\n"


async def event(reply: aiohttp.ClientResponse) -> dict[str, Any]:
    """Return what the next event holds."""
    assert await reply.content.readline() == b"event: status\n"
    data = await reply.content.readline()
    assert data.startswith(b"data: ")
    assert await reply.content.readline() == b"\n"
    found = json.loads(data[6:], parse_constant=pytest.fail)
    msgspec.json.decode(data[6:], type=StreamStatus)
    assert set(found) == set(StreamStatus.__struct_fields__)
    return dict(found)


async def until(reply: aiohttp.ClientResponse, **fields: Any) -> dict[str, Any]:
    """Return the next event with these fields."""
    while True:
        found = await event(reply)
        if all(found[name] == value for name, value in fields.items()):
            return found


def test_listeners_get_the_numbers_of_one_reader_which_sends_the_token() -> None:
    async def check(at: Running, worker: Worker) -> None:
        assert worker.asked == []
        async with at.session.get("/stream") as first:
            await begin(first)
            found = await event(first)
            assert (found["worker"], found["cut"], found["ratings"]) == (True, 4812, 1000)
            assert found["ratings_per_second"] is None
            async with at.session.get("/stream") as second:
                await begin(second)
                before = len(worker.asked)
                for _ in range(20):
                    await event(first)
                    await event(second)
                assert len(worker.asked) - before < 2 * 35
            await until(first, ratings_per_second=0.0)

    worker = runs(check)
    assert set(worker.asked) == {("/readyz", f"Bearer {TOKEN}"), ("/metrics", f"Bearer {TOKEN}")}


def test_what_the_worker_waits_for_is_passed_on_unless_the_gateway_itself_waits() -> None:
    async def check(at: Running, worker: Worker) -> None:
        async with at.session.get("/stream") as reply:
            await begin(reply)
            found = await event(reply)
            assert (found["kafka"], found["ready"], found["waiting_for"]) == (False, False, "Kafka")
            at.gateway.readiness.waiting_for = None
            worker.waiting_for = "replaying the log: " + "x" * 1000
            found = await until(reply, kafka=True, ready=False)
            if found["waiting_for"] is None:  # of a moment between the two
                found = await event(reply)
            assert found["waiting_for"] == worker.waiting_for[:240]

    runs(check)


async def page(text: str, status: int = 200) -> web.StreamResponse:
    return web.Response(text=text, status=status)


async def hang(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"murmurec_ready 1\n" * 5000)


async def trickle(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"#")
        await asyncio.sleep(0.01)


async def broken(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b"murmurec_ready 1\n")
    assert request.transport is not None
    request.transport.close()
    return response


async def elsewhere(_: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("/another")


async def packed(_: web.Request) -> web.StreamResponse:
    return web.Response(body=b"\x1f\x8b" + bytes(100), headers={"Content-Encoding": "gzip"})


BAD: dict[str, View] = {
    "a web page": lambda _: page("<html>"),
    "a defect": lambda _: page(exposition(measured=True), 500),
    "a token that is refused": lambda _: page('{"error":"admin_token"}', 401),
    "bytes that are no text": lambda _: page("murmurec_ready 1\n\udcff", 200),
    "a redirect": elsewhere,
    "a reply that never comes": hang,
    "a reply without an end": endless,
    "a reply that trickles": trickle,
    "half a reply": broken,
    "what says that it is gzip": packed,
}


@pytest.mark.parametrize("view", BAD.values(), ids=BAD)
def test_without_a_worker_that_answers_the_events_say_so_until_it_does(view: View) -> None:
    async def check(at: Running, worker: Worker) -> None:
        at.gateway.readiness.waiting_for = None
        worker.metrics = view
        async with at.session.get("/stream") as reply:
            await begin(reply)
            found = await event(reply)
            fields = {name for name, value in found.items() if value}
            assert fields <= {"kafka", "waiting_for"}
            assert found["ratings"] is None
            worker.metrics = numbers
            await until(reply, worker=True, cut=4812)
        assert "/another" not in dict(worker.asked)

    runs(check)


def test_more_streams_than_there_may_be_are_refused() -> None:
    async def check(at: Running, worker: Worker) -> None:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(at.address, connector=connector) as session:
            replies = [await session.get("/stream") for _ in range(100)]
            assert [reply.status for reply in replies] == [200] * 100
            async with session.get("/stream") as reply:
                assert (reply.status, (await reply.json())["reason"]) == (503, "streams")
                assert reply.headers["Retry-After"] == "10"
            assert (await at.get("/livez"))[0] == 200
            replies.pop().close()
            while True:
                async with session.get("/stream") as reply:
                    if reply.status == 200:
                        break

    runs(check)


def test_a_listener_that_does_not_read_is_dropped_and_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transports: list[asyncio.WriteTransport] = []
    begins = Connections.streams

    def streams(connections: Connections, request: web.Request) -> bool:
        assert isinstance(request.transport, asyncio.WriteTransport)
        transports.append(request.transport)
        return begins(connections, request)

    monkeypatch.setattr(Connections, "streams", streams)

    async def check(at: Running, _: Worker) -> None:
        with socket.socket() as idle:
            idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            idle.setblocking(False)
            await asyncio.get_running_loop().sock_connect(idle, ("127.0.0.1", at.port))
            idle.send(b"GET /stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            while not transports:
                await asyncio.sleep(0)
            slow = transports[0]
            own = slow.get_extra_info("socket")
            own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            async with at.session.get("/stream") as reply:
                await begin(reply)
                while not slow.is_closing():
                    await event(reply)
                    assert slow.get_write_buffer_size() < stream.MOST_WAITING_BYTES + 1000
                for _ in range(3):
                    assert (await event(reply))["worker"]

    runs(check)


def test_a_gateway_that_ends_ends_its_streams() -> None:
    async def run() -> None:
        async with serving(Worker()) as url, aiohttp.ClientSession() as session:
            async with running(gateway_worker=url) as at:
                reply = await session.get(f"{at.address}/stream")
                await begin(reply)
                await event(reply)
            with pytest.raises((aiohttp.ClientError, AssertionError)):
                await until(reply, cut=-1)
            left = {task for task in asyncio.all_tasks() if "reads" in repr(task.get_coro())}
            assert left == set()

    asyncio.run(run())


def test_head_and_parameters_begin_no_stream() -> None:
    async def check(at: Running, worker: Worker) -> None:
        async with at.session.head("/stream") as reply:
            assert (reply.status, reply.content_type) == (200, "text/event-stream")
        status, body, _ = await at.get("/stream?device=" + "0" * 32)
        assert (status, b"parameter device:" in body) == (400, True)
        assert b"000000" not in body
        async with at.session.post("/stream") as reply:
            assert reply.status == 405
        sent = b"GET /stream HTTP/1.0\r\nHost: evil.example\r\n\r\n"
        assert b" 421 " in await exchange(at.port, sent)
        assert worker.asked == []

    runs(check)
