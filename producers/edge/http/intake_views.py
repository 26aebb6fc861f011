"""What the site sends: items, one or a file of them; and events, durable before the answer.

202   every row that is an event is in the store; the others are listed with their reasons
400   not one row is an event
503   too many events wait, or the store cannot be written: send the same again
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
from aiohttp import web

from producers.datasets.item_files import ItemFile, rows_of
from producers.edge.events.event import Event
from producers.edge.events.event import Refused as RefusedEvent
from producers.edge.events.event_decoding import decode
from producers.edge.events.intake import Busy
from producers.edge.http.contract import JSON
from producers.edge.http.contract.edge_bodies import Accepted, RefusedRow, Removed, Stored
from producers.edge.http.contract.edge_endpoints import BY_NAME, REASONS
from producers.edge.http.contract.given import Refused, parameters
from producers.edge.http.site import EDGE, Edge
from producers.edge.http.user_views import reply
from stream_app.errors import Unwritable

MOST_LISTED = 1000  # refused rows of one answer
_IN_PLACE = 16 << 10  # bytes that are decoded on the event loop: a thread costs more


async def events(request: web.Request) -> web.Response:
    """Take events."""
    endpoint, edge, began = BY_NAME["events"], request.app[EDGE], time.monotonic()
    parameters(request, endpoint)
    async with edge.bodies.read(request, endpoint) as (body, kind):
        given = body, kind, time.time_ns() // 1_000_000, edge.site.terms.feedback
        rows = decode(*given) if len(body) <= _IN_PLACE else await edge.run(decode, *given)
        answer = await _taken(edge, rows)
    edge.metrics.durable(time.monotonic() - began)
    status = 400 if answer.error else endpoint.status
    return web.Response(status=status, body=msgspec.json.encode(answer), content_type=JSON)


async def _taken(edge: Edge, rows: list[Event | RefusedEvent]) -> Accepted:
    """Return the answer once the events among the rows are durable."""
    refused = [row for row in rows if isinstance(row, RefusedEvent)]
    found = [row for row in rows if isinstance(row, Event)]
    new: list[bool] = []
    if found:
        try:
            # A client that leaves takes nothing back.
            new = await asyncio.shield(asyncio.wrap_future(edge.site.intake.take(found)))
        except Busy:
            edge.metrics.events("busy", len(found))
            raise Refused(503, "busy", Retry_After="1") from None
        except Unwritable:
            edge.metrics.events("store", len(found))
            raise
    edge.metrics.events("accepted", sum(new))
    edge.metrics.events("repeated", len(new) - sum(new))
    edge.metrics.events("refused", len(refused))
    listed = [RefusedRow(each.row, each.reason, each.sentence) for each in refused[:MOST_LISTED]]
    answer = Accepted(sum(new), len(new) - sum(new), listed, max(0, len(refused) - MOST_LISTED))
    if found or not refused:
        return answer
    return msgspec.structs.replace(answer, error=REASONS["rows"], reason="rows")


async def put_item(request: web.Request) -> web.Response:
    """Write one item."""
    edge, endpoint = request.app[EDGE], BY_NAME["putItem"]
    item = parameters(request, endpoint)["item"]
    async with edge.bodies.read(request, endpoint) as (body, _):
        try:
            found = msgspec.json.decode(body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Refused(400, "rows", "the body is no JSON object") from None
        row = msgspec.json.encode({**found, "item": item})
        return await _stored(request, row, JSON)


async def put_items(request: web.Request) -> web.Response:
    """Write the items of a file."""
    edge, endpoint = request.app[EDGE], BY_NAME["putItems"]
    parameters(request, endpoint)
    async with edge.bodies.read(request, endpoint) as (body, kind):
        return await _stored(request, body, kind)


async def _stored(request: web.Request, body: bytes, kind: str) -> web.Response:
    edge = request.app[EDGE]
    read = await edge.run(rows_of, body, kind)
    if read.rows:
        await edge.run(edge.site.catalogue.put_many, read.rows)
    answer = _answer(read)
    body = msgspec.json.encode(answer)
    return web.Response(status=400 if answer.error else 200, body=body, content_type=JSON)


def _answer(read: ItemFile) -> Stored:
    refused = read.refused
    listed = [RefusedRow(each.row, each.reason, each.sentence) for each in refused[:MOST_LISTED]]
    more = max(0, len(refused) - MOST_LISTED)
    if read.rows:
        return Stored(len(read.rows), read.recognised, read.ignored, listed, more)
    return Stored(0, {}, [], listed, more, REASONS["rows"], "rows")


async def item(request: web.Request) -> web.Response:
    """Answer with an item."""
    edge, given = request.app[EDGE], parameters(request, BY_NAME["item"])
    found = await edge.run(edge.site.catalogue.get, given["item"])
    if found is None:
        raise Refused(404, "not_found", "the catalogue has no such item")
    return reply(found)


async def remove_item(request: web.Request) -> web.Response:
    """Remove an item."""
    edge, given = request.app[EDGE], parameters(request, BY_NAME["removeItem"])
    return reply(Removed(bool(await edge.run(edge.site.catalogue.remove, given["item"]))))


VIEWS = {
    "events": events,
    "putItem": put_item,
    "putItems": put_items,
    "item": item,
    "removeItem": remove_item,
}
