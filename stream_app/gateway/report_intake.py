"""POST /reports: the value of a record of the rating topic, answered when Kafka has confirmed it.

    application/json            an event as JSON
    application/octet-stream    an event as MessagePack, or in the envelope of its signature

The bytes are decoded as a worker decodes them from the topic, with its reason codes, and written as
they came. Two more things are refused as malformed, in which something could be hidden that was not
released: a field that is given twice, and an extension block (`context.CONTRACT`). A 202 says that
the record is in the log. What only the order of the log decides (a jump in the numbers, a device
that was forgotten, days that are no longer accepted) the workers decide later.

A tag in the content type is written beside the event. A refusal because of other bytes under its
number has their digest and tag, by which a device knows whether they are its own.

Neither content type can be sent by a page of another origin without asking first (CORS).
"""

from __future__ import annotations

import json
import time
from math import ceil
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from stream_app.gateway.buckets import Buckets, client
from stream_app.gateway.contract.bodies import Accepted
from stream_app.gateway.contract.rejection_reasons import OF_HTTP, OF_THE_WIRE, HttpReason
from stream_app.gateway.event_writer import WRITER, BrokerUnavailable, SeqReused, flush, writing
from stream_app.web.refusals import refused
from stream_app.wire import MAX_EVENT_BYTES, Event, Reason, WireError, encode, encode_json
from stream_app.wire.decoding import decode_unaddressed
from stream_app.wire.signatures import HEAD_BYTES, envelope_device, tag_in

if TYPE_CHECKING:
    from stream_app.gateway.context import Gateway, Views
    from stream_app.gateway.event_writer import Key

JSON, PACKED = "application/json", "application/octet-stream"
KAFKA_SECONDS = 2
_encode = msgspec.json.Encoder().encode

_UNKNOWN = (
    "Kafka has not confirmed the event in time; it may be written later: send the same bytes again"
)
Answer = tuple[str, web.Response]


def attach(app: web.Application, gateway: Gateway) -> Views:
    """Return the page, and add the writer behind it."""
    app.cleanup_ctx.append(writing(gateway, WRITER, gateway.topics.ratings))
    app.on_shutdown.append(flush)
    return {"report": Reports(gateway).post}


class Reports:
    """The view, with its token buckets."""

    kinds: tuple[str, ...] = (JSON, PACKED)
    most, writer, reused = MAX_EVENT_BYTES, WRITER, HttpReason.SEQ_REUSED

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._clients = Buckets(gateway.settings.gateway_rate)
        self._devices = Buckets(gateway.settings.gateway_rate)

    async def post(self, request: web.Request) -> web.Response:
        """Answer one event."""
        answer, reply = await self._answer(request)
        self._gateway.metrics.answered(answer)
        return reply

    async def _answer(self, request: web.Request) -> Answer:
        if found := self._unread(request):
            return found
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return self._too_large()
        try:
            event, partition = decoded(body, self._gateway)
        except WireError as error:
            return _rejected(error.reason)
        return await self._written(request, (event.device, event.seq), partition, body)

    def _unread(self, request: web.Request) -> Answer | None:
        """Return the refusal of a request whose body need not be read."""
        # Of a header that is missing aiohttp makes octet-stream; a page of another origin can send
        # a body without one and is not asked for it.
        kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind not in self.kinds or "Content-Encoding" in request.headers:
            return refusal(415, HttpReason.CONTENT_TYPE)
        if self._gateway.settings.gateway_rate:
            wait = self._clients.wait(client(request.remote), time.monotonic())
            if wait:
                return refusal(429, HttpReason.RATE, ceil(wait))
        return self._too_large() if (request.content_length or 0) > self.most else None

    def _too_large(self) -> Answer:
        return _rejected(Reason.TOO_LARGE)

    async def _written(self, request: web.Request, key: Key, partition: int, body: bytes) -> Answer:
        """Return the answer once Kafka has confirmed a body, or does not take it."""
        if wait := self._devices.wait(key[0], time.monotonic()):
            return refusal(429, HttpReason.RATE, ceil(wait))
        if not self._gateway.readiness.ready:
            return refusal(503, HttpReason.KAFKA, KAFKA_SECONDS)
        tag = tag_in(request.headers["Content-Type"])
        try:
            found = await request.app[self.writer].write(key, partition, body, tag)
        except SeqReused as other:
            return self.reused, refused(409, self.reused, OF_HTTP[self.reused], held=str(other))
        except BrokerUnavailable:
            return refusal(503, HttpReason.KAFKA, KAFKA_SECONDS)
        if found is None:
            return refusal(503, HttpReason.KAFKA, KAFKA_SECONDS, _UNKNOWN)
        place, duplicate = found
        offset = None if place.offset < 0 else place.offset
        reply = Accepted(place.partition, offset, duplicate)
        answer = "duplicate" if duplicate else "accepted"
        return answer, web.Response(status=202, body=_encode(reply), content_type=JSON)


def refusal(
    status: int, reason: HttpReason, seconds: int | None = None, sentence: str = ""
) -> Answer:
    """Return a refusal; `seconds` is when to try again."""
    later = {} if seconds is None else {"Retry_After": str(seconds)}
    return reason, refused(status, reason, sentence or OF_HTTP[reason], **later)


def _rejected(reason: Reason) -> Answer:
    """Return the refusal of a body that is not an event."""
    status = 413 if reason is Reason.TOO_LARGE else 400
    return reason, refused(status, reason, OF_THE_WIRE[reason])


async def expected(most: int, request: web.Request) -> web.Response | None:
    """Answer `Expect: 100-continue`, with which a client asks before it sends a large body; one
    that is too large is refused by the view, which counts it and reads nothing of it."""
    if (request.content_length or 0) > most:
        return None
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # the reply itself has not begun
    return None


def decoded(body: bytes, gateway: Gateway) -> tuple[Event, int]:
    """Return the event in a body and its partition; raises `WireError(reason)`."""
    event, partition = decode_unaddressed(body, gateway.intake)
    inner = body if envelope_device(body) is None else body[HEAD_BYTES:]
    if inner != _plain(inner, event) and _names_twice(inner):
        raise WireError(Reason.MALFORMED)
    return event, partition


def _plain(inner: bytes, event: Event) -> bytes:
    """Return the event as devices encode it, where that is possible without the items' names."""
    if inner[0] != 0x7B:
        return encode(event)
    if int(event.items.max()) >= 2**63:
        return b""
    return encode_json(event)


def _names_twice(inner: bytes) -> bool:
    """Return whether an event, which was decoded before, has a field twice."""
    if inner[0] == 0x7B:
        pairs: list[tuple[str, object]] = json.loads(inner, object_pairs_hook=list)
        return len({name for name, _ in pairs}) < len(pairs)
    fields = msgspec.msgpack.decode(inner)
    first, ends = inner[0], {0xDE: 3, 0xDF: 5}
    count = int.from_bytes(inner[1 : ends[first]]) if first in ends else first & 0x0F
    return len(fields) < count
