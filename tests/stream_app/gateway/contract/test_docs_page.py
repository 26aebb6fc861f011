"""The page /docs: whole, self-contained, and with every endpoint, code and type in it."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

from stream_app.gateway.contract.documents import documents
from stream_app.gateway.contract.endpoints import ENDPOINTS
from stream_app.gateway.contract.page import STYLE_PATH
from stream_app.gateway.contract.rejection_reasons import OF_REFUSALS
from stream_app.gateway.contract.schemas import BODIES, schemas
from stream_app.gateway.contract.topic_messages import MESSAGES, OF_TOPICS
from stream_app.gateway.static_files import PLACES
from stream_app.web.cached_document import page_files
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
    served |= {f"/web/{name}" for name in page_files(PLACES)}
    for link in found.links:
        if link.startswith("#"):
            assert link[1:] in found.ids, link
        elif link != "data:,":
            assert link in served, link
    assert len(found.links) > 150


def test_the_page_has_all_and_no_script() -> None:
    found = read()
    assert {"main", "nav", "details", "h1"} <= found.tags
    assert not {"script", "style"} & found.tags
    wanted = {each.name for each in ENDPOINTS}
    wanted |= {f"reason-{reason}" for reason in OF_REFUSALS}
    wanted |= {f"/components/schemas/{kind.__name__}" for kind in BODIES.values()}
    wanted |= {f"/components/messages/{message.name}" for message in MESSAGES}
    wanted |= {f"/channels/{name}" for name in OF_TOPICS}
    assert wanted <= set(found.ids)
    assert not re.search(r"https?://(?!127\.0\.0\.1)", PAGE)


def test_every_name_and_every_text_of_both_documents_is_on_the_page() -> None:
    made = documents()
    shown = html.unescape(re.sub(r"<[^>]*>", "\n", PAGE)).lower()

    def texts(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            for name, each in value.items():
                yield from () if name == "$ref" else (name, *texts(each))
        elif isinstance(value, list):
            for each in value:
                yield from texts(each)
        elif isinstance(value, str):
            yield value

    for name, parts in (
        ("openapi.json", ("paths", "components")),
        ("asyncapi.json", ("channels", "components")),
    ):
        document = json.loads(made[name])
        for part in parts:
            for text in texts(document[part]):
                assert text.lower() in shown, text


def test_the_page_is_under_the_policy_of_every_reply() -> None:
    async def run() -> None:
        async with running() as at:
            status, body, headers = await at.get("/docs")
            assert (status, body.decode()) == (200, PAGE)
            policy = headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'self';")
            assert "unsafe" not in policy
            assert (await at.get("/docs", If_None_Match=headers["ETag"]))[0] == 304
            assert (await at.get(STYLE_PATH))[2]["Content-Type"].startswith("text/css")
            assert (await at.get("/openapi.json"))[2]["Content-Security-Policy"] == policy

    asyncio.run(run())
