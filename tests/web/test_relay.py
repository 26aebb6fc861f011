"""A browser behind a relay: it seals as the RFC does, and neither side sees both."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_app.web.binary_http import Message, encode
from stream_app.web.oblivious_http import REQUEST as SEALED_TYPE
from tests.conftest import Kafka
from tests.fixtures.browser import serving
from tests.fixtures.gateways import written
from tests.fixtures.sealing_relays import Relayed, behind_a_relay
from tests.stream_app.web import test_binary_http as binary
from tests.stream_app.web import test_oblivious_http as rfc
from tests.web.small_gateway import IDS, WEB
from tests.web.test_device import PLACED, RATE, rating

OPEN = """async ([relay, key]) => {
  const { Device } = await import("/device.js"), { relayed } = await import("/relay.js");
  globalThis.device = await Device.open({ fetch: relayed(relay, key) });
  return device.mechanisms.map(({ id }) => id);
}"""
VECTORS = """async ({ secret, own, key, request, reply, asked }) => {
  const { sealRequest, encodeRequest, decodeResponse } = await import("/relay.js");
  const bytes = (hex) => Uint8Array.from(hex.match(/../g), (byte) => parseInt(byte, 16));
  const hex = (array) => Array.from(array, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const base64 = (text) => btoa(String.fromCharCode(...bytes(text)))
    .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const form = { kty: "OKP", crv: "X25519", x: base64(own) };
  const [privateKey, publicKey] = await Promise.all([{ ...form, d: base64(secret) }, form].map(
    (jwk) => crypto.subtle.importKey("jwk", jwk, "X25519", true, jwk.d ? ["deriveBits"] : [])));
  const { sealed, open } = await sealRequest(bytes(key), bytes(request), { privateKey, publicKey });
  const damaged = await open(bytes(reply).map((byte, at) => byte ^ (at === 20)))
    .catch((problem) => problem.message);
  const figure = decodeResponse(bytes(asked.response));
  return { sealed: hex(sealed), response: hex(await open(bytes(reply))), damaged,
    request: hex(encodeRequest(...asked.request)),
    figure: [figure.status, figure.headers, hex(figure.content)] };
}"""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with serving(WEB) as found:
        yield found


def test_a_browser_seals_and_reads_the_examples_of_the_rfcs(page, site) -> None:
    page.goto(f"{site}/vectors.json")
    method, _, _, path = binary.REQUEST.control
    asked = [method, path, [list(pair) for pair in binary.REQUEST.fields], ""]
    response = Message((("a", "b" * 70), ("etag", '"x"')), b"x" * 20_000, 404)
    found = page.evaluate(
        VECTORS,
        {
            "secret": rfc.EPHEMERAL.private_key.to_private_bytes().hex(),
            "own": rfc.EPHEMERAL.public_key.to_public_bytes().hex(),
            "key": rfc.PUBLIC.hex(),
            "request": rfc.REQUEST.hex(),
            "reply": rfc.SEALED_RESPONSE.hex(),
            "asked": {"request": asked, "response": encode(response).hex()},
        },
    )
    assert found["sealed"] == rfc.SEALED.hex()
    assert found["response"] == rfc.RESPONSE.hex()
    assert "damaged or forged" in found["damaged"]
    assert found["request"] == binary.FIGURE_8.hex()
    headers = [list(pair) for pair in response.fields]
    assert found["figure"] == [404, headers, response.content.hex()]


def posted(relay: Relayed, sealed: bytes) -> int:
    """Send bytes to the relay as anybody may; return the status."""
    made = urllib.request.Request(
        f"{relay.address}/ohttp", sealed, {"Content-Type": SEALED_TYPE, "Cookie": "id=me"}
    )
    try:
        with urllib.request.urlopen(made, timeout=60) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code


def sealed_requests(sent: bytes) -> list[tuple[bytes, bytes]]:
    """Return the heads and bodies of the sealed requests in what was sent; a body may hold any
    bytes, those of an end of line, too."""
    found = []
    while True:
        head, mark, rest = sent.partition(b"\r\n\r\n")
        if not mark:
            return found
        (length,) = (
            int(line.partition(b":")[2])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        )
        found.append((head, rest[:length]))
        sent = rest[length:]


@pytest.mark.kafka
def test_a_report_reaches_the_topic_and_no_side_sees_both(
    page, site, kafka: Kafka, topics: str, tmp_path: Path
) -> None:
    with behind_a_relay(kafka.bootstrap, topics, tmp_path, site, mechanisms=IDS) as relay:
        page.goto(f"{site}/vectors.json")
        assert page.evaluate(OPEN, [relay.address, relay.key]) == list(IDS)
        page.evaluate(RATE, rating(987_654_321))
        (record,) = page.evaluate(PLACED, 1)
        event = json.loads(record["body"])
        ((_, key, value),) = written(kafka.connection, topics)
        assert (key.decode(), value) == (event["device"], record["body"].encode())
        # What the relay received, and what the gateway received from it.
        contents = (event["device"], str(event["items"][0]), "reports", "mechanism", "epoch")
        for tap in (relay.clients, relay.relays):
            assert not any(word.encode() in tap.sent for word in contents)
        assert b"Mozilla" in relay.clients.sent
        assert site.encode() in relay.clients.sent
        requests = sealed_requests(bytes(relay.relays.sent))
        lines = b"\r\n".join(head for head, _ in requests).lower().split(b"\r\n")
        names = {line.partition(b":")[0] for line in lines if b": " in line}
        assert names == {b"host", b"content-type", b"content-length"}
        bodies = [body for _, body in requests]
        assert {len(each) for each in bodies} == {1024 + 7 + 32 + 16}
        # A body that is sent again counts once; a damaged one does not open.
        assert posted(relay, bodies[-1]) == 200
        assert posted(relay, bodies[-1][:-1] + bytes([bodies[-1][-1] ^ 1])) == 400
        assert b"cookie" not in bytes(relay.relays.sent).lower()
        assert len(written(kafka.connection, topics)) == 1


@pytest.mark.kafka
@pytest.mark.thorough
def test_what_waits_is_sent_as_it_was_when_gateway_and_key_are_back(
    page, site, kafka: Kafka, topics: str, tmp_path: Path
) -> None:
    with behind_a_relay(kafka.bootstrap, topics, tmp_path, site, mechanisms=IDS) as relay:
        page.goto(f"{site}/vectors.json")
        page.evaluate(OPEN, [relay.address, relay.key])
        port = relay.relays.cut()
        page.evaluate(RATE, rating(1193))
        away = sent(page)
        assert (away["waiting"], away["problem"]) == (1, "the relay has no answer (502)")
        # A key that the gateway does not have: nothing is marked as refused.
        other = rfc.PUBLIC.hex()
        page.evaluate("({ relay, key }) => import('/relay.js').then(({ relayed }) => "
                      "{ device.right = device.fetch; device.fetch = relayed(relay, key); })",
                      {"relay": relay.address, "key": other})  # fmt: skip
        relay.relays.port = port  # not before: the device sends again by itself
        wrong = sent(page)
        assert wrong["waiting"] == 1
        assert wrong["problem"].startswith(f"the gateway does not open what is sealed to {other}")
        assert [each["refused"] for each in page.evaluate("device.records()")] == [None]
        page.evaluate("() => { device.fetch = device.right; }")
        sent(page)
        (record,) = page.evaluate(PLACED, 1)
        assert [each[2] for each in written(kafka.connection, topics)] == [record["body"].encode()]


def sent(page) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate("device.send()")
    return found


def test_a_key_of_another_form_is_refused(page, site) -> None:
    page.goto(f"{site}/vectors.json")
    tried = """(key) => import("/relay.js").then(({ relayed }) => relayed("", key))
      .then(() => "", (problem) => problem.message)"""
    for key in ("", "0" * 63, "G" * 64, f"{'0' * 64}\n"):
        assert "64 hex digits" in page.evaluate(tried, key)
