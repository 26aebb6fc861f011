"""A small site behind the interface of an edge: a real intake on SQLite, and lists, users and a
catalogue that are as plain as can be, so that what the interface asked for can be looked at."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yarl

from producers.edge.events.intake import Intake
from producers.edge.http.contract.edge_bodies import Because, Listed, ModelQuality, Quality
from producers.edge.http.edge_serving import serving
from producers.edge.http.site import Edge, Site
from producers.edge.lists.wishes import EdgeList, Wish
from producers.edge.reporting.users import UnknownUser
from producers.edge.site_terms import SiteTerms
from producers.edge.store.database import Database
from tests.fixtures.waiting import PATIENCE_SECONDS

HOSTILE = "<img src=x onerror=alert(1)>"
JSON = {"Content-Type": "application/json"}


@dataclass
class Shelf:
    """A catalogue in memory."""

    rows: dict[str, Any] = field(default_factory=dict)

    def put_many(self, rows: Sequence[Any]) -> None:
        self.rows |= {row.item: row for row in rows}

    def put(self, row: Any) -> None:
        self.put_many([row])

    def get(self, item: str) -> Any:
        return self.rows.get(item)

    def remove(self, item: str) -> bool:
        return self.rows.pop(item, None) is not None


@dataclass
class ListRecorder:
    """Makes one list, and keeps what was asked."""

    asked: list[tuple[Any, ...]] = field(default_factory=list)
    fails: Exception | None = None
    waits_for: threading.Event | None = None
    waiting: bool = False

    def _made(self, *asked: Any) -> EdgeList:
        if self.fails is not None:
            raise self.fails
        if self.waits_for is not None:
            self.waiting = True
            assert self.waits_for.wait(PATIENCE_SECONDS)
        self.asked.append(asked)
        item = Listed("SKU-1", HOSTILE, 0.5, ("Shoes",), ("SKU-2",), None, "local")
        return EdgeList("00000000000000aa", (item,), "local", "local", "links", 3, 2, 7)

    def for_user(self, user: str, wish: Wish) -> EdgeList:
        return self._made("user", user, wish)

    def for_session(self, items: Sequence[str], wish: Wish) -> EdgeList:
        return self._made("session", tuple(items), wish)

    def similar(self, item: str, wish: Wish) -> EdgeList:
        return self._made("similar", item, wish)

    def popular(self, wish: Wish) -> EdgeList:
        return self._made("popular", wish)

    def latest(self, wish: Wish) -> EdgeList:
        return self._made("latest", wish)

    def because(self, user: str, item: str) -> Because:
        self.asked.append(("because", user, item))
        return Because(user, item, "local", ("SKU-2",), "")


@dataclass
class People:
    """Knows whoever is in the set."""

    known: set[str] = field(default_factory=set)

    def show(self, user: str) -> Any:
        if user not in self.known:
            raise UnknownUser("nothing")
        return {"user": user}

    def delete(self, user: str) -> Any:
        self.show(user)
        self.known.remove(user)
        return {"user": user, "removed": 1}

    def export(self, user: str) -> Any:
        return self.show(user)

    def accounts(self, n: int) -> Any:
        return [{"user": user} for user in sorted(self.known)[:n]]


@dataclass(frozen=True)
class Shop:
    """A running interface, what is behind it, and a client."""

    edge: Edge
    address: str
    session: aiohttp.ClientSession
    lists: ListRecorder
    shelf: Shelf
    people: People

    async def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, Any, Any]:
        """Return the status, the value and the headers of an answer; the path is sent as it is."""
        sent = (JSON if body is not None else {}) | {
            name.replace("_", "-"): text for name, text in headers.items()
        }
        url = yarl.URL(self.address + path, encoded=True)
        data = io.BytesIO(body) if isinstance(body, bytes) else body
        async with self.session.request(method, url, data=data, headers=sent) as reply:
            text = await reply.read()
            is_json = reply.content_type == "application/json" and text
            return reply.status, json.loads(text) if is_json else text, reply.headers

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        """Return the status and the value of a page."""
        return (await self.ask("GET", path, **headers))[:2]

    async def post(self, path: str, value: Any, **headers: str) -> tuple[int, Any]:
        """Send a value as JSON, or bytes as they are."""
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        return (await self.ask("POST", path, body, **headers))[:2]


@asynccontextmanager
async def open_shop(folder: Path, **changed: Any) -> AsyncIterator[Shop]:
    """Run a shop for the length of the block; `changed`: fields of `Edge`, or of `Site`."""
    lists, shelf, people = ListRecorder(), Shelf(), People()

    def counts() -> dict[str, Any]:
        return {"accounts": len(people.known), "terms": {"epsilon": "20"}, "sent": 3}

    terms = SiteTerms(models=("local", "popular"))
    with Database(f"sqlite:///{folder}/edge.db") as database:
        intake = Intake(database, terms)
        given, writable = changed.pop("intake", intake), changed.pop("writable", lambda: True)
        site = Site(
            intake=given,
            lists=lists,
            catalogue=shelf,
            users=people,
            terms=terms,
            shown=lambda made: None,
            status=changed.pop("status", counts),
            quality=lambda: Quality(30, [ModelQuality("local", 5, 50, 1, 2, 0, None, None)], []),
            problem=lambda: None,
            writable=writable,
        )
        edge = Edge(site, **changed)
        timeout = aiohttp.ClientTimeout(PATIENCE_SECONDS)
        try:
            async with (
                serving(edge, "127.0.0.1", 0) as address,
                aiohttp.ClientSession(timeout=timeout) as session,
            ):
                yield Shop(edge, address, session, lists, shelf, people)
        finally:
            intake.close()


@contextmanager
def beside(folder: Path, **changed: Any) -> Iterator[Shop]:
    """Run a shop in a thread, for a client or a browser that blocks."""
    found: Future[Shop] = Future()
    ended = threading.Event()

    async def serve() -> None:
        async with open_shop(folder, **changed) as shop:
            found.set_result(shop)
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        yield found.result(PATIENCE_SECONDS)
    finally:
        ended.set()
        thread.join()
