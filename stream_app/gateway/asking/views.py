"""GET /recommendations/{user} and GET /similar: the lists of the workers, with titles."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from math import ceil
from typing import TYPE_CHECKING, Final

from aiohttp import web

from stream_app.gateway.asking import http_query, pages
from stream_app.gateway.asking.asker import MOST, SECONDS, Asker, NoAnswer, TooMany
from stream_app.gateway.intake.buckets import Buckets, client
from stream_app.gateway.reads.catalogue import ServedCatalogue
from stream_app.gateway.reads.tables import TITLES
from stream_app.kafka.answers import BUSY, refusal
from stream_app.web.replies import refused
from stream_app.wire import Query, Status

if TYPE_CHECKING:
    from stream_app.gateway.context import Gateway

ASKER: Final = web.AppKey("asker", Asker)
_TOO_MANY = "too many queries are under way: ask again in a moment"
_TOO_OFTEN = "too many queries of this address: ask again later"


def attach(
    app: web.Application, gateway: Gateway, seconds: float = SECONDS, most: int = MOST
) -> None:
    """Add the two pages, and the asker behind them; `seconds` and `most` as it takes them."""
    lists = Lists(gateway)

    async def asking(running: web.Application) -> AsyncIterator[None]:
        asker = running[ASKER] = Asker(gateway.connection, gateway.topics, seconds, most)
        asker.start()
        yield
        await asker.stop()

    app.cleanup_ctx.append(asking)
    app.router.add_get("/recommendations/{user}", lists.recommendations)
    app.router.add_get("/similar", lists.similar)


class Lists:
    """The views."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._clients = Buckets(gateway.settings.rate)
        self._untitled = ServedCatalogue()

    async def recommendations(self, request: web.Request) -> web.Response:
        """Answer with the list of a user."""
        user = request.match_info["user"]
        return await self._answered(request, lambda: http_query.list_query(user, given(request)))

    async def similar(self, request: web.Request) -> web.Response:
        """Answer with items near to one."""
        return await self._answered(request, lambda: http_query.similar_query(given(request)))

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
            return "refused", refused(409, "refused", refusal(reply, query.options))
        titles = request.app.get(TITLES) or self._untitled
        shown = pages.page(query.user, query.k, reply, titles)
        body = pages.encoded(shown, titles, query.k, answer.size)
        return "answered", web.Response(body=body, content_type="application/json")


def given(request: web.Request) -> list[tuple[str, str]]:
    """Return the parameters of a request in their order."""
    return list(request.query.items())
