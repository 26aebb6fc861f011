"""The page /docs in Chromium, and its examples, run as they stand there."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from stream_app.gateway.contract import schemas
from stream_app.gateway.contract.page import USAGE
from stream_app.ranking.compact_side import decode_side
from tests.conftest import Kafka
from tests.fixtures.gateways import running
from tests.fixtures.public_gateways import deployed
from tests.fixtures.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.kafka
CHECKED = {name: Draft202012Validator(schema) for name, schema in schemas.schemas().items()}


# --- the examples of the page -------------------------------------------------------------------


class Examples(HTMLParser):
    """The code of every example, by its id."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self._within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "pre":
            self._within = dict(attrs).get("id") or ""

    def handle_data(self, data: str) -> None:
        if self._within:
            self.found[self._within] = self.found.get(self._within, "") + data

    def handle_endtag(self, tag: str) -> None:
        if tag == "pre":
            self._within = ""


def shell(code: str, address: str, folder: Path) -> str:
    """Run an example in a shell; of one without an end the first lines."""
    command = f"{code} | head -n 4" if "/stream" in code else code
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "GATEWAY": address},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    return done.stdout


def test_the_examples_of_the_page_work(
    kafka: Kafka,
    topics: str,
    page: Page,
    tmp_path: Path,
) -> None:
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    with deployed(kafka, topics) as address:
        page.goto(f"{address}/docs")
        parser = Examples()
        parser.feed(page.content())
        code = {name: parser.found[f"use-{name}"] for name, _, _, _ in USAGE}
        sh = {
            name: shell(code[name], address, tmp_path) for name, _, kind, _ in USAGE if kind == "sh"
        }
        CHECKED["mechanisms"].validate(json.loads(sh["allowed"]))
        CHECKED["accepted"].validate(json.loads(sh["send"]))
        listed = json.loads(sh["list"])
        CHECKED["item-list"].validate(listed)
        assert [row["item"] for row in listed["items"]] == [50, "alien"]
        assert sh["side"] == "200\n"
        side = (tmp_path / "item-links.bin").read_bytes()
        assert len(decode_side(side).keys) == 100
        assert "event: status\n" in sh["watch"]
        returned = "return { waiting, problem, offset: place.offset };"
        sent = page.evaluate(f"async () => {{ {code['device']} {returned} }}")
        assert sent == {"waiting": 0, "problem": None, "offset": sent["offset"]}
        assert sent["offset"] >= 0
        ranked = page.evaluate(f"async () => {{ {code['ranking']} return list; }}")
        assert len(ranked) == 10
        assert not problems
        page.context.close()


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_its_window_and_asks_no_other_host(
    browser: Any,
    width: int,
    scheme: Any,
) -> None:
    began, ended, found = threading.Event(), threading.Event(), list[str]()

    async def serve() -> None:
        async with running() as at:
            found.append(at.address)
            began.set()
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert began.wait(PATIENCE_SECONDS)
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        view, asked, problems = context.new_page(), list[str](), list[str]()
        view.on("request", lambda request: asked.append(request.url))
        view.on("console", lambda message: problems.append(message.text))
        view.goto(f"{found[0]}/docs")
        assert view.evaluate("document.documentElement.scrollWidth") == width
        paper = view.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (int(paper[4:].split(",")[0]) < 128) is (scheme == "dark")
        assert problems == []
        assert [url for url in asked if not url.startswith((found[0], "data:"))] == []
        context.close()
    finally:
        ended.set()
        thread.join()
