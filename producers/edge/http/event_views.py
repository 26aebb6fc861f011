"""POST /events: durable before the answer.

202   every row that is an event is in the store; the others are listed with their reasons
400   not one row is an event
503   too many events wait, or the store cannot be written: send the same again
"""

from __future__ import annotations

import asyncio
import time

import msgspec
from aiohttp import web

from producers.edge.events.event import Event
from producers.edge.events.event import Refused as RefusedEvent
from producers.edge.events.event_decoding import decode
from producers.edge.events.intake import Busy
from producers.edge.http.contract import JSON
from producers.edge.http.contract.edge_bodies import Accepted, RefusedRow
from producers.edge.http.contract.edge_endpoints import BY_NAME, REASONS
from producers.edge.http.contract.given import Refused, parameters
from producers.edge.http.site import EDGE, Edge
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


VIEWS = {"events": events}
