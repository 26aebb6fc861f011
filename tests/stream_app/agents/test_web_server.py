"""The admin port under clients that hold connections, and under names and tokens of any kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import faust
import pytest

from stream_app.agents.faust_ext.faust_app import LimitedWeb, new_app
from stream_app.broker.local import free_ports
from stream_app.kafka.clients import Connection
from stream_app.settings import Settings
from stream_app.web.connections import Limits
from stream_app.web.refusals import Access
from tests.fixtures.waiting import PATIENCE_SECONDS

TOKEN = "the-token-of-a-test"
MOST = 8
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Port:
    """A server with two pages: /livez, and /state, which is answered when `release` is set."""

    def __init__(self, limits: Limits, access: Access) -> None:
        self.number = free_ports(1)[0]
        self.release = asyncio.Event()
        self.left = 0
        app = faust.App(
            "test-web",
            store="memory://",
            web_bind="127.0.0.1",
            web_port=self.number,
            web_tables_enabled=False,
            web_router_enabled=False,
        )
        app.web = self.web = LimitedWeb(app, limits, (access.checked,))

        @app.page("/livez")
        async def livez(web: Any, _: Any) -> Any:
            return web.json({"alive": True})

        @app.page("/state")
        async def state(web: Any, _: Any) -> Any:
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                self.left += 1
                raise
            return web.json({"cut": 1})

    async def connect(self, first: bytes = b"") -> Stream:
        stream = await asyncio.open_connection("127.0.0.1", self.number)
        stream[1].write(first)
        await stream[1].drain()
        return stream

    async def get(self, path: str, *headers: str) -> tuple[int, bytes]:
        lines = [f"GET {path} HTTP/1.1", *(headers or ("Host: 127.0.0.1",)), "Connection: close"]
        reader, writer = await self.connect("\r\n".join([*lines, "", ""]).encode("latin-1"))
        async with asyncio.timeout(PATIENCE_SECONDS):
            reply = await reader.read()
        writer.close()
        head, _, body = reply.partition(b"\r\n\r\n")
        return int(head.split()[1]), body


@asynccontextmanager
async def port(limits: Limits | None = None, access: Access | None = None) -> AsyncIterator[Port]:
    """Serve for the length of the block."""
    made = Port(limits or Limits(), access or Access(frozenset()))
    made.web.init_server()
    await made.web.start_server()
    try:
        yield made
    finally:
        await made.web.stop_server()


def runs(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test's body in an event loop."""
    asyncio.run(body())


async def closed(stream: Stream) -> None:
    """Return when the server has closed a connection."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        try:
            while await stream[0].read(1000):
                pass
        except ConnectionError:
            pass
    stream[1].close()


def test_clients_that_never_finish_their_headers_hold_no_more_than_the_limit() -> None:
    async def body() -> None:
        async with port(Limits(MOST, 1000, 1000)) as at:
            slow = [await at.connect(b"GET /livez HTTP/1.1\r\nX: ") for _ in range(5 * MOST)]
            assert await at.get("/livez") == (200, b'{"alive":true}')
            for stream in slow[: -MOST + 1]:
                await closed(stream)
            assert len(at.web.connections) <= MOST

    runs(body)


def test_clients_whose_answer_takes_long_hold_no_more_than_the_limit() -> None:
    async def body() -> None:
        async with port(Limits(MOST, 1000, 1000)) as at:
            asked = b"GET /state HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
            slow = [await at.connect(asked) for _ in range(3 * MOST)]
            assert (await at.get("/livez"))[0] == 200
            for stream in slow[: -MOST + 1]:
                await closed(stream)
            assert at.left >= MOST  # what nobody reads is not computed further

    runs(body)


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTTP/1.1\r\nX: ", b"GET /livez HTTP/1.1\r\n"])
def test_headers_that_do_not_come_in_time_end_the_connection(sent: bytes) -> None:
    async def body() -> None:
        async with port(Limits(MOST, 0.05, 1000)) as at:
            await closed(await at.connect(sent))
            assert len(at.web.connections) == 0

    runs(body)


def test_a_server_that_closed_a_connection_late_closes_the_next_one_too() -> None:
    async def body() -> None:
        async with port(Limits(MOST, 0.05, 1000)) as at:
            for _ in range(3):
                await closed(await at.connect())
                assert len(at.web.connections) == 0

    runs(body)


def test_a_connection_that_idles_after_a_reply_is_closed() -> None:
    async def body() -> None:
        async with port(Limits(MOST, 0.05, 1000)) as at:
            reader, writer = await at.connect(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await reader.readline()).endswith(b"200 OK\r\n")
            await closed((reader, writer))

    runs(body)


def test_an_answer_that_takes_too_long_is_given_up() -> None:
    async def body() -> None:
        async with port(Limits(MOST, 1000, 0.05)) as at:
            stream = await at.connect(b"GET /state HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await closed(stream)
            assert at.left == 1

    runs(body)


def test_requests_one_after_another_use_one_connection() -> None:
    async def body() -> None:
        async with port() as at:
            reader, writer = await at.connect()
            for _ in range(3):
                writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert await reader.readuntil(b'{"alive":true}')
            writer.close()

    runs(body)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:8470", 200),
        ("[::1]:8470", 200),
        ("10.1.2.3", 200),
        ("localhost:8470", 200),
        ("LOCALHOST.", 200),
        ("worker:8470", 200),
        ("evil.example:8470", 421),
        ("worker.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("127.0.0.1:8470:1", 421),
        ("user@127.0.0.1", 421),
        ("", 421),
        ("\xff", 421),
    ],
)
@pytest.mark.parametrize("path", ["/livez", "/elsewhere"])
def test_a_name_that_is_not_served_is_refused(host: str, status: int, path: str) -> None:
    async def body() -> None:
        async with port(access=Access(frozenset({"worker"}))) as at:
            found, _ = await at.get(path, f"Host: {host}")
            assert found == (404 if status == 200 and path == "/elsewhere" else status)

    runs(body)


def test_a_request_without_a_host_is_refused() -> None:
    async def body() -> None:
        async with port() as at:
            assert (await at.get("/livez", "Accept: */*"))[0] in (400, 421)

    runs(body)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        (f"bearer{TOKEN}", 401),
        ("Bearer \xff", 401),
        ("", 401),
        (None, 401),
    ],
)
def test_a_token_opens_what_is_not_a_probe(sent: str | None, status: int) -> None:
    headers = ["Host: 127.0.0.1", *([] if sent is None else [f"Authorization: {sent}"])]

    async def body() -> None:
        async with port(access=Access(frozenset(), TOKEN)) as at:
            at.release.set()
            assert (await at.get("/livez", *headers))[0] == 200
            found, text = await at.get("/state", *headers)
            assert found == status
            assert TOKEN.encode() not in text
            assert (await at.get("/elsewhere", *headers))[0] == (404 if status == 200 else 401)

    runs(body)


def test_no_variable_of_the_environment_outranks_what_a_worker_sets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    variables = {
        "BROKER_URL": "kafka://elsewhere:1",
        "CONSUMER_AUTO_OFFSET_RESET": "earliest",
        "PROCESSING_GUARANTEE": "exactly_once",
        "PRODUCER_ACKS": "0",
        "WEB_PORT": "2",
    }
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    conf = new_app(Settings(), Connection("127.0.0.1:9"), 1, tmp_path).conf
    assert [str(url) for url in conf.broker] == ["kafka://127.0.0.1:9"]
    assert (conf.consumer_auto_offset_reset, conf.web_port) == ("latest", 1)
    assert (conf.processing_guarantee.value, conf.producer_acks) == ("at_least_once", -1)
