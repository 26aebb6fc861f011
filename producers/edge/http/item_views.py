"""The site's catalogue over HTTP: one item, or a file of them."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from producers.datasets.item_files import ItemFile, rows_of
from producers.edge.http.contract import JSON
from producers.edge.http.contract.edge_bodies import RefusedRow, Removed, Stored
from producers.edge.http.contract.edge_endpoints import BY_NAME, REASONS
from producers.edge.http.contract.given import Refused, parameters
from producers.edge.http.event_views import MOST_LISTED
from producers.edge.http.site import EDGE
from producers.edge.http.user_views import reply


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


VIEWS = {"putItem": put_item, "putItems": put_items, "item": item, "removeItem": remove_item}
