"""The page /docs: whole, self-contained, and with every endpoint, code and type in it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from html.parser import HTMLParser

from stream_app.gateway.contract.documents import documents
from stream_app.gateway.contract.endpoints import ENDPOINTS
from stream_app.gateway.contract.reasons import OF_REFUSALS
from stream_app.gateway.contract.schemas import schemas
from tests.fixtures.gateways import running

PAGE = documents()["docs.html"].decode()
_VOID = {"meta", "link", "br"}


class Read(HTMLParser):
    """Ids, links and tags of a page; an element that is not closed raises an error."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.add(tag)
        self.ids += [found["id"]] if found.get("id") else []
        self.links += [value for name in ("href", "src") if (value := found.get(name))]
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._open.pop() != tag:
            raise ValueError(tag)


def read() -> Read:
    found = Read()
    found.feed(PAGE)
    return found


def test_every_link_leads_to_something_of_this_gateway() -> None:
    found = read()
    assert len(set(found.ids)) == len(found.ids)
    served = {each.path for each in ENDPOINTS} | {f"/schemas/{name}.json" for name in schemas()}
    for link in found.links:
        if link.startswith("#"):
            assert link[1:] in found.ids, link
        elif link != "data:,":
            assert link in served, link
    assert len(found.links) > 150


def test_the_page_has_all_and_no_script() -> None:
    found = read()
    assert {"main", "nav", "table", "h1"} <= found.tags
    assert "script" not in found.tags
    wanted = {each.name for each in ENDPOINTS}
    wanted |= {f"reason-{reason}" for reason in OF_REFUSALS}
    wanted |= {f"type-{name}" for name in schemas()}
    assert wanted <= set(found.ids)
    assert not re.search(r"https?://(?!127\.0\.0\.1)", PAGE)


def test_the_policy_of_the_page_allows_its_own_style_alone() -> None:
    (style,) = re.findall(r"<style>(.*?)</style>", PAGE, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()

    async def run() -> None:
        async with running() as at:
            status, body, headers = await at.get("/docs")
            assert (status, body.decode()) == (200, PAGE)
            policy = headers["Content-Security-Policy"]
            assert f"style-src 'sha256-{digest}'" in policy
            assert policy.startswith("default-src 'self';")
            assert "unsafe" not in policy
            assert (await at.get("/docs", If_None_Match=headers["ETag"]))[0] == 304
            other = (await at.get("/openapi.json"))[2]["Content-Security-Policy"]
            assert "sha256" not in other

    asyncio.run(run())
