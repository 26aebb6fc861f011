"""The headers of every reply, other origins, host names, and the files of the page."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stream_app.gateway import static_files
from tests.fixtures.gateways import Running, body, exchange, running

pytestmark = pytest.mark.thorough

SHOP = "https://shop.example"
EVERY = ("/", "/web/nothing", "/nothing", "/livez", "/readyz", "/metrics", "/reports")


def runs(check: Callable[[Running], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        async with running(**settings) as at:
            await check(at)

    asyncio.run(run())


def test_every_reply_is_guarded_and_says_nothing_of_the_server():
    async def check(at: Running) -> None:
        for path in EVERY:
            _, _, headers = await at.get(path)
            assert headers["Content-Security-Policy"].startswith("default-src 'self';"), path
            assert headers["X-Content-Type-Options"] == "nosniff", path
            assert headers["Referrer-Policy"] == "no-referrer", path
            assert headers["Cache-Control"] in ("no-store", "no-cache"), path
            assert headers["Server"] == "murmurec", path
        assert b"Server: murmurec" in await exchange(at.port, b"nonsense\r\n\r\n")

    runs(check)


@pytest.mark.parametrize(
    ("path", "method"),
    [("/nothing", "GET"), ("/reports", "GET"), ("/livez", "POST"), ("/reports", "OPTIONS")],
)
def test_a_page_that_is_not_there_is_refused_in_the_one_form(path, method):
    async def check(at: Running) -> None:
        async with at.session.request(method, path) as reply:
            found = await reply.json()
        assert (reply.status, found["reason"]) in ((404, "not_found"), (405, "method"))
        assert set(found) == {"error", "reason"}

    runs(check)


async def asked(at: Running, origin: str) -> tuple[int, Any]:
    """Ask as a browser does before a page of another origin may post."""
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST",
               "Access-Control-Request-Headers": "content-type"}  # fmt: skip
    async with at.session.options("/reports", headers=headers) as reply:
        return reply.status, reply.headers


def test_a_page_of_an_allowed_origin_may_post():
    async def check(at: Running) -> None:
        status, headers = await asked(at, SHOP)
        assert status == 204
        assert headers["Access-Control-Allow-Origin"] == SHOP
        assert "Content-Type" in headers["Access-Control-Allow-Headers"]
        assert "POST" in headers["Access-Control-Allow-Methods"]
        assert headers["Vary"] == "Origin"
        for path in EVERY:
            _, _, headers = await at.get(path, Origin=SHOP)
            assert headers["Access-Control-Allow-Origin"] == SHOP
            assert "Origin" in headers["Vary"]

    runs(check, gateway_origins=("https://other.example", SHOP))


@pytest.mark.parametrize("allowed", [(), (SHOP,)])
@pytest.mark.parametrize(
    "origin", ["https://evil.example", f"{SHOP}.evil.example", f"{SHOP}:444", "http://shop.example",
               "null", ""]
)  # fmt: skip
def test_a_page_of_another_origin_gets_no_header(allowed, origin):
    async def check(at: Running) -> None:
        status, headers = await asked(at, origin)
        assert status == 403
        assert not [name for name in headers if name.startswith("Access-Control")]
        for path in EVERY:
            _, _, headers = await at.get(path, Origin=origin)
            assert not [name for name in headers if name.startswith("Access-Control")]

    runs(check, gateway_origins=allowed)


def test_all_origins_may_be_allowed():
    async def check(at: Running) -> None:
        assert (await asked(at, "https://any.example"))[0] == 204
        _, _, headers = await at.get("/livez", Origin="https://any.example")
        assert headers["Access-Control-Allow-Origin"] == "*"

    runs(check, gateway_origins=("*",))


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1", 200), ("localhost:1", 200), ("gateway.example", 200), ("evil.example", 421),
     ("gateway.example.evil.example", 421)],
)  # fmt: skip
def test_only_names_of_the_gateway_are_served(host, status):
    async def check(at: Running) -> None:
        found, text, _ = await at.get("/livez", Host=host)
        assert found == status
        if status == 421:
            assert b"gateway_hosts" in text
            assert (await at.post(body(), Host=host))[0] == 421

    runs(check, gateway_hosts=("gateway.example",))


# --- the files of the page ----------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Give the folder of a page."""
    (tmp_path / "index.html").write_text("<p>page</p>" * 100)
    (tmp_path / "page.js").write_text("export const x = 1\n")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "data.json").write_text("{}")
    (tmp_path / "notes.secret").write_text("secret")
    monkeypatch.setattr(static_files, "PLACES", (tmp_path / "no", tmp_path))
    return tmp_path


def test_the_page_and_its_files_are_served(folder):
    async def check(at: Running) -> None:
        status, text, headers = await at.get("/")
        assert (status, text) == (200, b"<p>page</p>" * 100)
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        assert headers["Cache-Control"] == "no-cache"
        status, _, headers = await at.get("/web/page.js")
        assert (status, headers["Content-Type"]) == (200, "text/javascript; charset=utf-8")
        assert (await at.get("/web/below/data.json"))[:2] == (200, b"{}")
        for path in ("notes.secret", "../secret", "%2e%2e/index.html", "/index.html", "below"):
            assert (await at.get(f"/web/{path}"))[0] == 404, path

    runs(check)


def test_a_file_is_sent_once_and_compressed(folder):
    async def check(at: Running) -> None:
        head = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        reply = await exchange(at.port, f"{head}Accept-Encoding: gzip\r\n\r\n".encode())
        assert gzip.decompress(reply.partition(b"\r\n\r\n")[2]) == b"<p>page</p>" * 100
        _, _, headers = await at.get("/")
        status, text, _ = await at.get("/", If_None_Match=headers["ETag"])
        assert (status, text) == (304, b"")
        assert (await at.get("/", If_None_Match='"other"'))[0] == 200

    runs(check)
