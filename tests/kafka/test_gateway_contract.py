"""What the documents promise of every endpoint, asked of a real gateway on a real Kafka."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from jsonschema import Draft202012Validator

from stream_app.gateway.contract import schemas
from stream_app.gateway.contract.endpoints import ENDPOINTS, Endpoint
from stream_app.gateway.contract.topic_messages import EVENT
from tests.conftest import Kafka
from tests.fixtures.gateways import JSON
from tests.fixtures.public_gateways import deployed
from tests.fixtures.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.kafka
CHECKED = {name: Draft202012Validator(schema) for name, schema in schemas.schemas().items()}

# Path -> the refusal where a deployment is no demo, has no campaigns and opens no sealed requests.
ELSEWHERE = {
    "/demo": "not_a_demo",
    **dict.fromkeys(("/ohttp-keys", "/ohttp"), "no_relay"),
    **dict.fromkeys(("/campaign", "/campaign/side", "/contributions"), "no_campaigns"),
}


# --- every endpoint -----------------------------------------------------------------------------


async def data_of_first_event(reply: aiohttp.ClientResponse) -> bytes:
    async for line in reply.content:
        if line.startswith(b"data:"):
            return line.removeprefix(b"data:")
    raise AssertionError("a stream without an event")


async def check(session: aiohttp.ClientSession, endpoint: Endpoint) -> None:
    """Ask the example of an endpoint; hold status, type and body to its documentation."""
    sent = {}
    if endpoint.takes_event:
        value = EVENT.decoded | {"mechanism": "rr:5:2"}
        sent = {"data": json.dumps(value).encode(), "headers": JSON}
    async with session.request(endpoint.method, endpoint.ask, **sent) as reply:
        if endpoint.path in ELSEWHERE:
            refusal = await reply.json()
            assert (reply.status, refusal["reason"]) == (404, ELSEWHERE[endpoint.path])
            assert refusal["reason"] in endpoint.refusals[404]
            return
        assert (reply.status, reply.content_type) == (endpoint.status, endpoint.content_type)
        assert ("ETag" in reply.headers) is endpoint.cached
        if endpoint.content_type == "text/event-stream":
            body = await data_of_first_event(reply)
        else:
            body = await reply.read()
    assert body
    if endpoint.body is not None:
        (name,) = (name for name, kind in schemas.BODIES.items() if kind is endpoint.body)
        CHECKED[name].validate(json.loads(body))


def test_every_example_is_answered_as_documented(kafka: Kafka, topics: str) -> None:
    async def ask(address: str) -> None:
        timeout = aiohttp.ClientTimeout(PATIENCE_SECONDS)
        async with aiohttp.ClientSession(address, timeout=timeout) as session:
            for endpoint in ENDPOINTS:
                await check(session, endpoint)

    with deployed(kafka, topics) as address:
        asyncio.run(ask(address))


REFUSED: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("POST", "/reports", {"data": b"", "headers": JSON}, 400, "empty"),
    ("POST", "/reports", {"data": b"{}", "headers": JSON}, 400, "malformed"),
    ("POST", "/reports", {"data": b"x", "headers": {"Content-Type": "text/html"}}, 415, ""),
    ("POST", "/reports", {"data": b" " * 200_000, "headers": JSON}, 413, "too_large"),
    ("GET", "/reports", {}, 405, "method"),
    ("GET", "/recommendations/ann", {}, 400, "query"),
    ("GET", "/similar", {}, 400, "query"),
    ("GET", "/similar?item=5&k=0", {}, 400, "query"),
    ("GET", "/web/none.js", {}, 404, "not_found"),
    ("GET", "/schemas/none.json", {}, 404, "not_found"),
    ("GET", "/livez", {"headers": {"Host": "elsewhere.example"}}, 421, "host"),
]


def test_every_refusal_is_one_that_is_documented(kafka: Kafka, topics: str) -> None:
    documented = {each.path: each for each in ENDPOINTS}

    async def ask(address: str) -> None:
        async with aiohttp.ClientSession(address) as session:
            for method, path, sent, status, reason in REFUSED:
                async with session.request(method, path, **sent) as reply:
                    found = await reply.json()
                assert (reply.status, found["reason"]) == (status, reason or "content_type"), path
                CHECKED["refusal"].validate(found)
                endpoint = documented.get(path)
                if endpoint is not None and endpoint.method == method and status < 420:
                    assert found["reason"] in endpoint.refusals[status]

    with deployed(kafka, topics) as address:
        asyncio.run(ask(address))
