"""What a gateway refuses, with which reason and in which form; without a Kafka behind it.

An event that is not refused gets 503 `kafka` here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from stream_app.gateway.context import ANSWERS
from stream_app.wire import MAX_EVENT_BYTES, REASONS, Event, encode
from stream_app.wire.signatures import SigningKey
from tests.fixtures.gateways import DEVICE, JSON, PACKED, Running, body, exchange, running

pytestmark = pytest.mark.thorough

Body = Callable[[Running], Awaitable[None]]


def runs(check: Body, **settings: Any) -> None:
    async def run() -> None:
        async with running(**settings) as at:
            await check(at)

    asyncio.run(run())


def packed(**changed: Any) -> bytes:
    items, reports = np.array([1193], np.uint64), np.array([3], np.uint8)
    fields = {"seq": 1, "mechanism": "rr:5:2", "epoch": 20778, "items": items, "reports": reports}
    return encode(Event(bytes.fromhex(DEVICE), **(fields | changed)))


EVENT = packed()
TWICE = body()[:-1] + b', "reports": [4]}'
# A map of eight fields, of which the last stands before too.
PACKED_TWICE = body()[:-1] + b', "reports": [4]}'

REFUSED = {
    "an empty body": (b"", JSON, 400, "empty"),
    "no JSON": (b"{", JSON, 400, "malformed"),
    "a list": (b"[1]", JSON, 400, "malformed"),
    "text before the event": (b" " + body(), JSON, 400, "malformed"),
    "text after the event": (body() + b"x", JSON, 400, "malformed"),
    "a later version": (body(v=2), JSON, 400, "unknown_version"),
    "a pseudonym in capitals": (body(device=DEVICE.upper()), JSON, 400, "bad_device"),
    "a pseudonym that is no hex": (body(device="x" * 32), JSON, 400, "bad_device"),
    "a short pseudonym": (body(device="ab"), JSON, 400, "malformed"),
    "a mechanism that is not allowed": (body(mechanism="rr:5:9"), JSON, 400,
                                        "mechanism_not_allowed"),
    "no noise": (body(mechanism="rr:5:inf"), JSON, 400, "mechanism_not_allowed"),
    "more reports": (body(reports=[1, 2]), JSON, 400, "length_mismatch"),
    "a report beyond the alphabet": (body(reports=[5]), JSON, 400, "report_outside_alphabet"),
    "a mask": (body(masks=[1]), JSON, 400, "bad_mask"),
    "a test event": (body(test=True), JSON, 400, "test_event"),
    "an item that is too long": (body(items=["\u00e9" * 100]), JSON, 400, "bad_item"),
    "seq 0": (body(seq=0), JSON, 400, "malformed"),
    "a field of its own": (body(rating=5), JSON, 400, "malformed"),
    "an extension block": (body(x={"rating": 5}), JSON, 400, "malformed"),
    "a field twice": (TWICE, JSON, 400, "malformed"),
    "a packed field twice": (PACKED_TWICE, PACKED, 400, "malformed"),
    "half an envelope": (b"\xc1abc", PACKED, 400, "bad_signature"),
    "too many bytes": (b"{" + b" " * MAX_EVENT_BYTES, JSON, 413, "too_large"),
    "text": (body(), {"Content-Type": "text/plain"}, 415, "content_type"),
    "a form": (body(), {"Content-Type": "application/x-www-form-urlencoded"}, 415, "content_type"),
    "a compressed body": (body(), JSON | {"Content-Encoding": "gzip"}, 415, "content_type"),
}  # fmt: skip


@pytest.mark.parametrize(("sent", "kind", "status", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_bad_body_has_its_reason(sent, kind, status, reason):
    async def check(at: Running) -> None:
        found, reply = await at.post(sent, kind)
        assert (found, reply["reason"]) == (status, reason)
        assert set(reply) == {"error", "reason"}

    runs(check)


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (body(), JSON),
        (body(), {"Content-Type": "Application/JSON; charset=utf-8"}),
        (body(items=["alien", 7], reports=[1, 2]), JSON),
        (json.dumps(json.loads(body()), indent=3).encode(), JSON),
        (packed(), PACKED),
        (SigningKey.from_seed(bytes(32)).seal("x", packed()), PACKED),
    ],
)
def test_a_good_body_waits_for_kafka(sent, kind):
    async def check(at: Running) -> None:
        status, reply = await at.post(sent, kind)
        envelope = sent[:1] == b"\xc1"  # of another device than the event
        assert (status, reply["reason"]) == ((400, "key_mismatch") if envelope else (503, "kafka"))

    runs(check)


def test_where_devices_sign_nothing_else_is_taken():
    key = SigningKey.from_seed(bytes(32))
    fields = json.loads(body(device=key.pseudonym.hex()))
    event = json.dumps(fields).encode()

    async def check(at: Running) -> None:
        sealed = key.seal("murmurec.ratings.v1", event)
        assert (await at.post(sealed, PACKED))[1]["reason"] == "kafka"
        for wrong in (event, key.seal("other", event), sealed[:-1] + b" ", sealed[:50]):
            status, reply = await at.post(wrong, PACKED)
            assert (status, reply["reason"]) == (400, "bad_signature")

    runs(check, devices="signed")


def test_a_body_without_a_content_type_is_refused():
    # A page of another origin may send such a body without asking.
    async def check(at: Running) -> None:
        head = f"POST /reports HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body())}"
        reply = await exchange(at.port, f"{head}\r\nConnection: close\r\n\r\n".encode() + body())
        assert reply.startswith(b"HTTP/1.1 415 ")

    runs(check)


@pytest.mark.parametrize("expect", ["", "Expect: 100-continue\r\n"])
def test_ten_megabytes_are_refused_before_they_are_sent(expect):
    async def check(at: Running) -> None:
        head = "POST /reports HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        reply = await exchange(at.port, f"{head}{expect}Content-Length: {10**7}\r\n\r\n".encode())
        assert reply.startswith(b"HTTP/1.1 413 ")
        assert json.loads(reply.partition(b"\r\n\r\n")[2])["reason"] == "too_large"

    runs(check)


def test_an_endless_body_is_refused_at_the_limit():
    async def check(at: Running) -> None:
        async def chunks() -> Any:
            for _ in range(100):
                yield b"{" * 10_000

        async with at.session.post("/reports", data=chunks(), headers=JSON) as reply:
            assert reply.status == 413

    runs(check)


@pytest.mark.parametrize("expect", ["100-continue", "something"])
def test_an_expectation_is_met(expect):
    async def check(at: Running) -> None:
        status, reply = await at.post(body(), Expect=expect)
        assert (status, reply["reason"]) == (503, "kafka")

    runs(check)


def test_a_request_that_is_not_http_is_not_repeated():
    async def check(at: Running) -> None:
        for sent in (b"SECRET\r\n\r\n", b"GET / HTTP/1.1\r\nSECRET SECRET: x\r\n\r\n",
                     b"GET /SECRET HTTP/9.9.9\r\n\r\n"):  # fmt: skip
            reply = await exchange(at.port, sent)
            assert reply.startswith((b"HTTP/1.0 400 ", b"HTTP/1.1 400 "))
            assert b"SECRET" not in reply
            assert json.loads(reply.partition(b"\r\n\r\n")[2])["reason"] == "request"

    runs(check)


@hypothesis.settings(max_examples=1)
@hypothesis.given(strategies.data())
def test_random_bytes_have_a_reason(data):
    mutated = strategies.builds(
        lambda start, noise, at: start[: at % 100] + noise + start[at % 100 :],
        strategies.sampled_from([body(), packed(), SigningKey.from_seed(bytes(32)).seal("x", b"")]),
        strategies.binary(max_size=20),
        strategies.integers(0, 200),
    )
    sent = data.draw(
        strategies.lists(strategies.binary(max_size=300) | mutated, min_size=60, max_size=60)
    )

    async def check(at: Running) -> None:
        for value in sent:
            for kind in (JSON, PACKED):
                status, reply = await at.post(value, kind)
                reasons = {"kafka": 503, **{str(reason): 400 for reason in REASONS}}
                assert reasons[reply["reason"]] == status
        assert "defect" not in (await at.get("/metrics"))[1].decode()

    runs(check, gateway_rate=0)


def test_a_client_and_a_device_may_send_so_many():
    async def check(at: Running) -> None:
        found = [await at.post(body(seq=i + 1)) for i in range(6)]
        assert [status for status, _ in found] == [503] + [429] * 5
        async with at.session.post("/reports", data=body(), headers=JSON) as reply:
            assert reply.status == 429
            assert 1 <= int(reply.headers["Retry-After"]) <= 100
        assert b'answer="rate"} 6.0' in (await at.get("/metrics"))[1]

    runs(check, gateway_rate=0.01)  # one, and no other while a slow machine asks


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [(404, "no_campaigns")] * 6),
        ({"privacy_mode": "central"}, [(503, "kafka")] + [(429, "rate")] * 5),
        ({"privacy_mode": "split", "devices": "signed"}, [(409, "signed")] * 6),
    ],
)
def test_a_contribution_without_a_stage_that_could_take_it_is_refused(settings, expected):
    """Before the log of rounds was read no stage is over: a device would give up what it paid."""

    async def check(at: Running) -> None:
        async def sent() -> tuple[int, str]:
            async with at.session.post("/contributions", data=b"x", headers=PACKED) as reply:
                return reply.status, (await reply.json())["reason"]

        assert [await sent() for _ in range(6)] == expected
        shown = {"no_campaigns": 404, "kafka": 204, "signed": 409}[expected[0][1]]
        for path in ("/campaign", "/campaign/side"):
            assert (await at.get(path))[0] == shown

    runs(check, gateway_rate=0.01, **settings)


def test_every_reason_can_be_counted():
    assert len(set(ANSWERS)) == len(ANSWERS)
