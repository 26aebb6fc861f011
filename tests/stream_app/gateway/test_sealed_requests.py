"""Requests through a relay, on a real gateway and a real relay, without a Kafka behind them."""

from __future__ import annotations

import asyncio
import json
import signal
import stat
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from stream_app.errors import UserError
from stream_app.gateway.relayed import relay
from stream_app.gateway.relayed.sealed_requests import MOST_BYTES, secret_in
from stream_app.gateway.serving import serving
from stream_app.settings import Settings
from stream_app.web.binary_http import Message, decode, encode
from stream_app.web.oblivious_http import REQUEST, public_of, seal_request
from tests.fixtures.gateways import Running, body, process, running
from tests.fixtures.waiting import PATIENCE_SECONDS

SENT = {"Content-Type": REQUEST}
AS_JSON = (("content-type", "application/json"),)


def get(path: str, *fields: tuple[str, str], method: str = "GET") -> Message:
    return Message(fields, control=(method, "https", "", path))


def report(**changed: Any) -> Message:
    return Message(AS_JSON, body(**changed), control=("POST", "https", "", "/reports"))


@asynccontextmanager
async def relayed(at: str, **settings: Any) -> AsyncIterator[aiohttp.ClientSession]:
    """Give a client of a relay to the gateway at an address."""
    made = relay.Relay.to(at, Settings(gateway_port=0, **settings))
    async with (
        serving(made) as address,
        aiohttp.ClientSession(address, timeout=aiohttp.ClientTimeout(PATIENCE_SECONDS)) as session,
    ):
        yield session


async def asked(session: aiohttp.ClientSession, key: bytes, request: Message) -> Message:
    """Send a request in a seal; return what was in the seal of the reply."""
    sealed, answer = seal_request(key, encode(request))
    async with session.post("/ohttp", data=sealed, headers=SENT) as reply:
        assert (reply.status, reply.content_type) == (200, "message/ohttp-res")
        found = answer.open(await reply.read())
    assert len(found) % 1024 == 0
    return decode(found)


async def refused(session: aiohttp.ClientSession, sent: bytes, **headers: str) -> tuple[int, str]:
    """Send bytes; return the status and the reason of the refusal."""
    async with session.post("/ohttp", data=BytesIO(sent), headers=SENT | headers) as reply:
        return reply.status, (await reply.json())["reason"]


def test_every_page_is_answered_through_a_relay_as_without_one(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "relay.key"
        async with running(gateway_relay_key=path) as at, relayed(at.address) as session:
            key = public_of(secret_in(path))
            for page in ("/mechanisms", "/docs", "/web/device.js", "/nothing", "/?a=b"):
                found = await asked(session, key, get(page))
                status, content, headers = await at.get(page)
                assert (found.status, found.content) == (status, content), page
                assert dict(found.fields)["content-type"] == headers["Content-Type"]
            for page in ("/readyz", "/livez", "/metrics", "/%6detrics", "/metrics?a=b"):
                assert (await asked(session, key, get(page))).status in (400, 404), page
            tagged = dict((await asked(session, key, get("/docs"))).fields)["etag"]
            again = get("/docs", ("if-none-match", tagged))
            assert (await asked(session, key, again)).status == 304
            found = await asked(session, key, report())
            assert (found.status, json.loads(found.content)["reason"]) == (503, "kafka")
            assert dict(found.fields)["retry-after"] == "2"
            bad = report(v=2)
            assert (await asked(session, key, bad)).status == 400

    asyncio.run(run())


@pytest.mark.thorough
def test_what_has_no_end_and_what_is_no_request_is_refused_inside(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "relay.key"
        async with running(gateway_relay_key=path) as at:
            key = public_of(secret_in(path))
            nested, _ = seal_request(key, encode(get("/mechanisms")))
            inside = Message(
                (("content-type", REQUEST),), nested, control=get("/ohttp", method="POST").control
            )
            for request, status in (
                (get("/stream"), 404),
                (get("/reports", method="DELETE"), 405),
                (get("/a\r\nX: y"), 400),
                (inside, 404),
            ):
                assert (await asked(at.session, key, request)).status == status, request.control

    asyncio.run(run())


def test_a_gateway_opens_what_is_sealed_to_its_key_and_nothing_else(tmp_path: Path) -> None:
    async def run(at: Running, session: aiohttp.ClientSession, path: Path) -> None:
        sealed, _ = seal_request(public_of(secret_in(path)), encode(report()))
        other, _ = seal_request(public_of(bytes(31) + b"\1"), encode(report()))
        for sent in (b"", b"x", sealed[:-1], sealed[:-1] + b"x", other):
            assert await refused(session, sent) == (400, "sealed")
        assert await refused(session, bytes(MOST_BYTES + 1)) == (413, "too_large")
        assert await refused(at.session, bytes(MOST_BYTES + 1)) == (413, "too_large")
        found = await refused(session, sealed, **{"Content-Type": "application/json"})
        assert found == (415, "content_type")

    async def begin() -> None:
        path = tmp_path / "relay.key"
        async with running(gateway_relay_key=path) as at, relayed(at.address) as session:
            await run(at, session, path)
            async with session.get("/ohttp-keys") as reply:
                assert reply.content_type == "application/ohttp-keys"
                assert (await reply.read())[5:37] == public_of(secret_in(path))
            for page in ("/reports", "/mechanisms", "/metrics", "/"):
                async with session.get(page) as reply:
                    assert reply.status == 404

    asyncio.run(begin())


@pytest.mark.thorough
def test_a_relay_limits_the_address_and_a_gateway_behind_it_the_device(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "relay.key"
        limited = running(gateway_relay_key=path, gateway_rate=0.01)
        async with limited as at, relayed(at.address, gateway_rate=0.01) as session:
            key = public_of(secret_in(path))
            others = [report(device=f"{number:032x}") for number in range(3)]
            # Three devices of one relay are not held to the one event of an address.
            found = [(await asked(at.session, key, each)).status for each in others]
            assert found == [503, 503, 503]
            assert (await asked(at.session, key, others[0])).status == 429
            await asked(session, key, get("/docs"))
            assert await refused(session, b"x") == (429, "rate")

    asyncio.run(run())


def test_a_relay_whose_gateway_is_away_says_when_to_try_again() -> None:
    async def run() -> None:
        async with (
            relayed("http://127.0.0.1:1") as session,
            session.post("/ohttp", data=b"x", headers=SENT) as reply,
        ):
            assert (reply.status, reply.headers["Retry-After"]) == (502, "5")
            assert (await reply.json())["reason"] == "no_answer"

    asyncio.run(run())


def test_the_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "relay.key"
    first = secret_in(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert secret_in(path) == first
    assert first not in path.read_bytes()
    assert bytes.fromhex(path.read_text()) == first
    path.chmod(0o640)
    with pytest.raises(UserError, match="chmod 600"):
        secret_in(path)


@pytest.mark.parametrize("text", ["", "00", "0" * 63, "g" * 64, "é" * 32, "0" * 64 + "\n0"])
def test_a_damaged_key_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    path = tmp_path / "relay.key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(UserError, match="64 hex digits"):
        secret_in(path)
    assert path.read_text() == text


def test_a_key_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="gateway_relay_key"):
        secret_in(tmp_path / "absent" / "relay.key")


@pytest.mark.parametrize("url", ["", "gateway:8480", "ftp://a", "http://a b", "http://a?b=c"])
def test_a_relay_to_no_address_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="--relay-to"):
        relay.Relay.to(url, Settings())


@pytest.mark.thorough
def test_the_command_relays_without_kafka_and_logs_nothing_of_a_request() -> None:
    with process("127.0.0.1:1", "t", "--relay-to", "http://127.0.0.1:1") as (relay_process, at):
        request = urllib.request.Request(f"{at}/ohttp", b"sealed-body", SENT)
        with pytest.raises(urllib.error.HTTPError, match="502") as refusal:
            urllib.request.urlopen(request, timeout=PATIENCE_SECONDS)
        refusal.value.close()
        relay_process.send_signal(signal.SIGTERM)
        out, log = relay_process.communicate(timeout=PATIENCE_SECONDS)
    assert relay_process.returncode == 0
    assert "gateway.started" in log
    assert "sealed-body" not in out + log
    assert "ohttp" not in log
