"""The modules on another site: a real gateway that allows its origin, or does not, and the example
of the README. The gateway has no broker, so what it is sent waits."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stream_app.gateway.context import Gateway
from stream_app.gateway.serving import serving as serving_gateway
from stream_app.settings import Settings
from tests.fixtures.browser import serving
from tests.web.small_gateway import IDS, WEB, small_gateway
from tests.web.test_device import RATE, rating

OPEN = """async (gateway) => {
  const { Device } = await import("/device.js");
  globalThis.device = await Device.open({ gateway });
  return device.mechanisms.map(({ id }) => id);
}"""

ASKED = """async ([gateway, body]) => {
  const headers = { "Content-Type": "application/json" };
  const reply = await fetch(`${gateway}/reports`, { method: "POST", body, headers });
  return { status: reply.status, later: reply.headers.get("Retry-After") };
}"""


def device_body(page) -> str:
    body: str = page.evaluate("device.records().then(([record]) => record.body)")
    return body


@contextmanager
def gateway_without_kafka(*origins: str) -> Iterator[str]:
    """Give the address of a real gateway, in a thread with a loop of its own."""
    settings = Settings(
        bootstrap_servers="127.0.0.1:1", gateway_port=0, gateway_origins=origins, mechanisms=IDS
    )
    addresses: list[str] = []
    started, ended = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with serving_gateway(Gateway.from_settings(settings)) as address:
            addresses.append(address)
            started.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert started.wait(60)
        yield addresses[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


def test_a_page_of_an_allowed_origin_is_a_device(page) -> None:
    with serving(WEB) as site, gateway_without_kafka(site) as gateway:
        page.goto(f"{site}/vectors.json")
        assert page.evaluate(OPEN, gateway) == list(IDS)
        assert page.evaluate(RATE, rating(1193))["seq"] == 1
        found = page.evaluate("device.send()")
        assert (found["sent"], found["waiting"]) == (0, 1)
        assert "send the same bytes again" in found["problem"]
        asked = page.evaluate(ASKED, [gateway, device_body(page)])
        assert (asked["status"], int(asked["later"]) > 0) == (503, True)


def test_a_page_of_another_origin_is_none(page) -> None:
    with serving(WEB) as site, gateway_without_kafka("https://shop.example") as gateway:
        page.goto(f"{site}/vectors.json")
        assert page.evaluate(OPEN, gateway) == []


def test_the_example_of_the_readme_runs(page) -> None:
    (example,) = re.findall(r"```html\n(.*?)```", (WEB / "README.md").read_text(), re.DOTALL)
    vectors = json.loads((WEB / "vectors.json").read_text())["ranking"][0]
    with small_gateway() as gateway:
        gateway.pages = pages(example, vectors)
        page.add_init_script(
            "globalThis.printed = []; console.log = (...given) => { printed.push(given); };"
        )
        page.goto(f"{gateway.address}/example")
        page.wait_for_function("globalThis.finished")
        printed: list[list[Any]] = page.evaluate("printed")
    (spent,) = (line[0] for line in printed if isinstance(line[0], dict))
    assert (spent["reports"], spent["left"]) == (1, 9)
    listed = [line[0] for line in printed if len(line) == 1 and isinstance(line[0], list)]
    assert len(listed[-1]) == 10
    assert listed[-1][0]["because"] == [vectors["cases"][1]["history"][0]["key"]]


def pages(example: str, vectors: dict[str, Any]) -> dict[str, bytes]:
    """Return the pages that the example asks for."""
    key = vectors["cases"][1]["history"][0]["key"]
    local = example.replace("https://gateway.example.org", "").replace("./", "/web/")
    done = "globalThis.finished = true;\n</script>"
    return {
        "/example": f"<!doctype html>{local.replace('</script>', done)}".encode(),
        "/catalogue": json.dumps({"items": [{"item": int(key, 16) >> 1, "key": key}]}).encode(),
        "/item-links": base64.b64decode(vectors["side"]),
    }
