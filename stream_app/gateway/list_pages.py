"""GET /recommendations/{user} and GET /similar: the lists of the workers, with titles.

/recommendations/{user}?k=10                     the list of a user
/recommendations/{user}?k=10&for=now             for this visit; for=next, as without it: the next
/similar?item=5&k=10                             items near to one; a text id as it is

A parameter that is unknown or comes twice is refused. No sentence repeats what was sent.

Every page of k items has the same number of bytes: the answer of a worker with titles, as JSON,
with spaces up to `page_bytes`. The number depends on public values alone: k, and the longest id,
and title with genres and year, of the public catalogue. A worker's catalogue may be newer
than the gateway's: the size of its reply gives the longest id that it knows. So the size of a page
says neither how many items it has nor which. White space after a JSON value is part of no value.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web

from stream_app.gateway.asker import MOST, SECONDS, Asker, NoAnswer, TooMany
from stream_app.gateway.buckets import Buckets, client
from stream_app.gateway.contract.bodies import ItemList, ListedItem, exact
from stream_app.gateway.contract.endpoints import BY_NAME
from stream_app.gateway.reads.catalogue_view import ServedCatalogue
from stream_app.gateway.reads.tables import TITLES
from stream_app.kafka.broker_answers import BUSY, entries, refusal
from stream_app.web.refusals import refused
from stream_app.wire import (
    LIST_LENGTH,
    Item,
    Listed,
    Query,
    Recommendation,
    Status,
    Visit,
    key,
    key_of,
    parse_item,
)
from stream_app.wire.messages import ENVELOPE_BYTES, SCORE_BYTES, longest_name_of

if TYPE_CHECKING:
    from stream_app.gateway.context import Gateway, Views

NO_ID = "0" * 16
"""Of a query that is not under way yet; the asker gives it an id and a deadline."""
_USER = re.compile(r"[0-9a-f]{32}")


def list_query(user: str, given: Sequence[tuple[str, str]]) -> Query:
    """Return the query for the list of a user; ValueError with one sentence for a bad one.

    `given`: the parameters by name, in the order in which they came.
    """
    if not _USER.fullmatch(user):
        raise ValueError("user: a pseudonym has 32 hex characters, lower case")
    options = _once(given, BY_NAME["recommendations"].query)
    visit = _visit(options["for"]) if "for" in options else msgspec.UNSET
    return Query(NO_ID, user, _length(options), 0, for_=visit)


def similar_query(given: Sequence[tuple[str, str]]) -> Query:
    """Return the query for items near to one; ValueError with one sentence for a bad one."""
    options = _once(given, BY_NAME["similar"].query)
    if "item" not in options:
        raise ValueError("item: give the id of an item, /similar?item=ID")
    return Query(NO_ID, None, _length(options), 0, similar_to=_item(options["item"]))


def _once(given: Sequence[tuple[str, str]], known: Sequence[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for name, value in given:
        if name not in known:
            raise ValueError(f"a parameter is not known here: give {', '.join(known)}")
        if name in found:
            raise ValueError(f"{name}: give it once")
        found[name] = value
    return found


def _length(given: Mapping[str, str]) -> int:
    k = given.get("k", "10")
    if not re.fullmatch(r"[0-9]{1,3}", k) or not 1 <= int(k) <= LIST_LENGTH:
        raise ValueError(f"k: ask for 1 to {LIST_LENGTH} items")
    return int(k)


def _visit(text: str) -> Visit:
    if text not in ("next", "now"):
        raise ValueError("for: give next or now")
    return "now" if text == "now" else "next"


def _item(text: str) -> Item:
    item = parse_item(text)
    key(item)
    return item


_ROW_BYTES = SCORE_BYTES + len(
    b'{"item":,"title":,"genres":,"year":,"score":,"because":,"because_title":},'
)


def page(user: str | None, k: int, reply: Recommendation, titles: ServedCatalogue) -> ItemList:
    """Return the first k items of an answer with their titles."""
    return ItemList(
        user,
        tuple(_row(*entry, titles) for entry in entries(reply)[:k]),
        reply.method,
        reply.as_of,
        reply.privacy,
        reply.catching_up,
        reply.ndcg,
        reply.ndcg_popular,
        None if reply.for_ is msgspec.UNSET else reply.for_,
    )


def _row(
    item: Listed, score: float | None, cause: Listed | None, titles: ServedCatalogue
) -> ListedItem:
    row = titles.row(key_of(item))
    because = None if cause is None else titles.row(key_of(cause)).title
    item, cause = exact(item), None if cause is None else exact(cause)
    return ListedItem(item, row.title, row.genres, row.year, score, cause, because)


def page_bytes(titles: ServedCatalogue, k: int, reply_bytes: int = 0) -> int:
    """Return the number of bytes of every page of k items that is made of replies of a size."""
    name = max(titles.longest_name, longest_name_of(reply_bytes))
    return ENVELOPE_BYTES + k * (2 * name + titles.longest_text + titles.longest_title + _ROW_BYTES)


def encoded(shown: ItemList, titles: ServedCatalogue, k: int, reply_bytes: int = 0) -> bytes:
    """Return a page of at most k items as `page_bytes` bytes; as more where the reply was not of
    a worker of this release, which makes all of one size."""
    return msgspec.json.encode(shown).ljust(page_bytes(titles, k, reply_bytes))


ASKER: Final = web.AppKey("asker", Asker)
_TOO_MANY = "too many queries are under way: ask again in a moment"
_TOO_OFTEN = "too many queries of this address: ask again later"


def attach(
    app: web.Application, gateway: Gateway, seconds: float = SECONDS, most: int = MOST
) -> Views:
    """Return the two pages, and add the asker behind them, which takes `seconds` and `most`."""
    lists = Lists(gateway)

    async def asking(running: web.Application) -> AsyncIterator[None]:
        asker = running[ASKER] = Asker(gateway.connection, gateway.topics, seconds, most)
        asker.refused = gateway.metrics.reply_refused
        asker.start()
        yield
        await asker.stop()

    app.cleanup_ctx.append(asking)
    return {"recommendations": lists.recommendations, "similar": lists.similar}


class Lists:
    """The views."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._clients = Buckets(gateway.settings.gateway_rate)
        self._untitled = ServedCatalogue()

    async def recommendations(self, request: web.Request) -> web.Response:
        """Answer with the list of a user."""
        user = request.match_info["user"]
        return await self._answered(request, lambda: list_query(user, list(request.query.items())))

    async def similar(self, request: web.Request) -> web.Response:
        """Answer with items near to one."""
        return await self._answered(request, lambda: similar_query(list(request.query.items())))

    async def _answered(self, request: web.Request, asked: Callable[[], Query]) -> web.Response:
        began = time.monotonic()
        outcome, response = await self._outcome(request, asked)
        self._gateway.metrics.asked(outcome, time.monotonic() - began)
        return response

    async def _outcome(
        self, request: web.Request, asked: Callable[[], Query]
    ) -> tuple[str, web.Response]:
        try:
            query = asked()
        except ValueError as error:
            return "query", refused(400, "query", str(error))
        wait = self._clients.wait(client(request.remote), time.monotonic())
        if wait:
            return "rate", refused(429, "rate", _TOO_OFTEN, Retry_After=str(ceil(wait)))
        try:
            answer = await request.app[ASKER].ask(query)
        except TooMany:
            return "busy", refused(503, "busy", _TOO_MANY, Retry_After="1")
        except NoAnswer as error:
            return "no_answer", refused(503, "no_answer", str(error), Retry_After="2")
        reply = answer.reply
        if reply.status is Status.BUSY:
            return "busy", refused(503, "busy", BUSY, Retry_After="1")
        if reply.status is not Status.OK:
            return "refused", refused(409, "refused", refusal(reply))
        titles = request.app.get(TITLES) or self._untitled
        shown = page(query.user, query.k, reply, titles)
        body = encoded(shown, titles, query.k, answer.size)
        return "answered", web.Response(body=body, content_type="application/json")
