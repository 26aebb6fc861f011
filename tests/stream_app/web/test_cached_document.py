"""A document that is the same for all: two encodings with a tag each, and 304 for who has it."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from stream_app.web.cached_document import Document, accepts_gzip, parameters_refused
from tests.fixtures.gateways import exchange

PLAIN = b"the same for all " * 100
DOCUMENT = Document.made(PLAIN, "application/octet-stream")
TAG, PACKED_TAG = f'"{DOCUMENT.digest}"', f'"{DOCUMENT.digest}-gzip"'


def served(check: Callable[[str], Awaitable[None]]) -> None:
    async def page(request: web.Request) -> web.Response:
        return parameters_refused(request) or DOCUMENT.answer(request)

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/page", page)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            await check(site.name)
        finally:
            await runner.cleanup()

    asyncio.run(run())


def replies(*asked: dict[str, str], method: str = "GET", path: str = "/page") -> list[Any]:
    """Return (status, bytes as they were sent, headers) for requests with these headers."""
    found: list[Any] = []

    async def check(address: str) -> None:
        async with aiohttp.ClientSession(
            auto_decompress=False, skip_auto_headers=["Accept-Encoding"]
        ) as session:
            for headers in asked:
                async with session.request(method, address + path, headers=headers) as reply:
                    found.append((reply.status, await reply.read(), reply.headers))

    served(check)
    return found


def test_each_encoding_has_a_tag_of_its_own_and_gzip_is_sent_to_clients_that_take_it() -> None:
    plain, packed = replies({}, {"Accept-Encoding": "br, gzip"})
    assert plain[:2] == (200, PLAIN)
    assert plain[2]["ETag"] == TAG
    assert "Content-Encoding" not in plain[2]
    assert gzip.decompress(packed[1]) == PLAIN
    assert len(packed[1]) < len(PLAIN) / 10
    assert packed[2]["ETag"] == PACKED_TAG
    assert packed[2]["Content-Encoding"] == "gzip"
    for _, _, headers in (plain, packed):
        assert headers["Vary"] == "Accept-Encoding"
        assert headers["Cache-Control"] == "no-cache"
        assert headers["Content-Type"] == "application/octet-stream"


@pytest.mark.parametrize(
    "tags", [TAG, PACKED_TAG, f"W/{TAG}", f'"other", {PACKED_TAG}', "*", f'{TAG}, "other"']
)
def test_a_client_that_has_it_gets_304_without_a_body(tags: str) -> None:
    for headers in ({}, {"Accept-Encoding": "gzip"}):
        ((status, body, found),) = replies({"If-None-Match": tags, **headers})
        assert (status, body) == (304, b"")
        assert found["ETag"] in (TAG, PACKED_TAG)
        assert found["Vary"] == "Accept-Encoding"


NO_TAGS = ("", '"', "W/", '"*"x', ",,,", f'"{DOCUMENT.digest}', "é", "x" * 8000)


@pytest.mark.parametrize("tags", ['"other"', DOCUMENT.digest, *NO_TAGS])
def test_a_tag_that_is_none_or_another_gets_the_whole_document(tags: str) -> None:
    ((status, body, _),) = replies({"If-None-Match": tags})
    assert (status, body) == (200, PLAIN)


def test_head_has_the_headers_of_get_and_no_body() -> None:
    ((status, body, headers),) = replies({"Accept-Encoding": "gzip"}, method="HEAD")
    assert (status, body) == (200, b"")
    assert headers["Content-Length"] == str(len(DOCUMENT.packed))
    assert headers["ETag"] == PACKED_TAG


def test_a_second_request_on_the_connection_of_a_head_is_answered() -> None:
    async def check(address: str) -> None:
        port = int(address.rpartition(":")[2])
        head, get = (b"%s /page HTTP/1.1\r\nHost: x\r\n" % name for name in (b"HEAD", b"GET"))
        sent = head + b"\r\n" + get + b"Connection: close\r\n\r\n"
        assert (await exchange(port, sent)).endswith(b"\r\n\r\n" + PLAIN)

    served(check)


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/page?search=alien", "parameter search:"),
        ("/page?item=5&item=6", "parameter item:"),
        ("/page?%3Cscript%3E=1", "with an unusual name"),
        ("/page?" + "x" * 100 + "=1", "with an unusual name"),
    ],
)
def test_a_query_parameter_is_refused_by_its_name(path: str, named: str) -> None:
    ((status, body, _),) = replies({}, path=path)
    assert status == 400
    assert named in body.decode()
    assert b"alien" not in body
    assert b"script" not in body


@pytest.mark.parametrize(
    ("header", "taken"),
    [
        ("gzip", True),
        ("GZIP", True),
        ("deflate, gzip;q=0.5", True),
        ("*", True),
        ("br;q=1.0, *;q=0.1", True),
        ("", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip;q=0, *", False),
        ("gzip;q=0.000", False),
        ("*;q=0", False),
        ("gzip;q=1.2.3", False),
        ("gzip;q=x", False),
        ("xgzip", False),
        ("gzip" * 1000, False),
    ],
)
def test_which_clients_take_gzip(header: str, taken: bool) -> None:
    assert accepts_gzip(header) is taken
