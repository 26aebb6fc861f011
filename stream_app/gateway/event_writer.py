"""Writes events, or contributions, to their topic, once each, and wakes the requests that wait.

    submit -> librdkafka's queue -> broker -> delivery reports, gathered by a thread
           -> one call into the event loop for each batch of them -> the waiting requests

A device sends an event again until it has an answer. The newest events are known by device and
number with a digest of their bytes, so the same bytes are not written twice, also while the first
of them are still under way; other bytes under a number in use are refused. Memory is bounded: what
is under way by librdkafka's queue, what is confirmed by `MOST_KNOWN`. The workers drop duplicates
beyond that.

A request that has waited `WAIT_SECONDS` is answered without a place. Its event is still under way
then, and so is that of a client that has left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog
from aiohttp import web
from confluent_kafka import KafkaError, Message

from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.background_thread import BackgroundThread
from stream_app.wire.signatures import TAG, digest_of
from stream_app.wire.topics import lacking

if TYPE_CHECKING:
    from stream_app.gateway.context import Gateway

log = structlog.get_logger()

MOST_KNOWN = 65_536
WAIT_SECONDS = 10.0
_LOOK_SECONDS = 0.5
_POLL_SECONDS = 0.1
_FLUSH_SECONDS = 2.5
_QUEUE = {
    "linger_ms": 3,
    "queue_buffering_max_messages": 10_000,
    "queue_buffering_max_kbytes": 64 * 1024,
    "message_timeout_ms": 30_000,
}


class SeqReused(Exception):
    """The device has used this number, or this stage, for other bytes: of tagged ones, digest and
    tag in hex."""


class BrokerUnavailable(Exception):
    """Kafka takes no event now: nothing was written."""


class Place(NamedTuple):
    """Where an event is. An offset of -1 is not known: the broker confirmed a repeated write
    without it. A tuple of bytes and numbers is untracked by the garbage collector."""

    digest: bytes
    tag: bytes
    partition: int
    offset: int


@dataclass(eq=False, slots=True)
class Pending:
    """An event on its way, and the requests that wait for it."""

    digest: bytes
    tag: bytes
    partition: int
    since: float
    waiting: list[asyncio.Future[Place | None]] = field(default_factory=list)


Key = tuple[bytes, int | bytes]
"""A device, and its number of an event, or what names a stage."""
_Report = tuple[Key, KafkaError | None, int | None]


class EventWriter:
    """Writes to one topic; belongs to the event loop in which it is made. `properties` are those of
    the producer."""

    def __init__(
        self, gateway: Gateway, topic: str, most_known: int = MOST_KNOWN, **properties: Any
    ) -> None:
        self._topic = topic
        self._metrics, self._readiness = gateway.metrics, gateway.readiness
        self._loop = asyncio.get_running_loop()
        self._producer = clients.producer(gateway.connection, **_QUEUE, **properties)
        self._most_known = most_known
        self._under_way: dict[Key, Pending] = {}
        self._known: dict[Key, Place] = {}
        self._reports: list[_Report] = []
        self._thread = BackgroundThread("reports", self._poll, self._ended)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._under_way)

    async def write(
        self, key: Key, partition: int, body: bytes, tag: bytes = b""
    ) -> tuple[Place, bool] | None:
        """Return the place of an event once Kafka has confirmed it, and whether it was sent
        before; None where the place is not known in time. Raises `SeqReused` and
        `BrokerUnavailable`."""
        digest = digest_of(body)
        known = self._known.get(key) or self._under_way.get(key)
        if known is not None and known.digest != digest:
            raise SeqReused((known.digest + known.tag).hex() if known.tag else "")
        if isinstance(known, Place):
            return known, True
        pending = known or self._submit(key, Pending(digest, tag, partition, monotonic()), body)
        waiter: asyncio.Future[Place | None] = self._loop.create_future()
        pending.waiting.append(waiter)
        place = await waiter
        return None if place is None else (place, known is not None)

    def _submit(self, key: Key, pending: Pending, body: bytes) -> Pending:
        def delivered(error: KafkaError | None, message: Message) -> None:
            self._reports.append((key, error, message.offset()))

        if self._thread.ended:
            raise BrokerUnavailable
        try:
            clients.send(
                self._producer,
                self._topic,
                key=key[0].hex().encode(),
                value=body,
                headers=[(TAG, pending.tag)] if pending.tag else None,
                partition=pending.partition,
                on_delivery=delivered,
            )
        except (BufferError, UserError):
            raise BrokerUnavailable from None
        self._under_way[key] = pending
        return pending

    # --- delivery reports -----------------------------------------------------------------------

    def _poll(self) -> None:
        """Gather delivery reports; runs in a thread of its own."""
        while not self._thread.ended:
            self._producer.poll(_POLL_SECONDS)
            if self._reports:
                batch, self._reports = self._reports, []
                self._loop.call_soon_threadsafe(self._settle, batch)

    def _ended(self, reason: BaseException) -> None:
        # Without a right to write, the client has failed for good: it does not ask for it again.
        fault = lacking(f"topic {self._topic}", "WRITE", "gateway")
        sentence = fault if isinstance(reason, UserError) else repr(reason)
        self._loop.call_soon_threadsafe(self._readiness.fail, sentence)

    def _settle(self, batch: list[_Report]) -> None:
        now, errors = monotonic(), set[str]()
        for key, error, offset in batch:
            pending, place = self._under_way.pop(key), None
            if error is None:
                known = -1 if offset is None else offset
                place = Place(pending.digest, pending.tag, pending.partition, known)
                self._known[key] = place
                self._metrics.confirmed(now - pending.since)
            else:
                errors.add(error.str())
                if error.fatal():
                    self._readiness.fail(
                        f"Kafka's client cannot go on ({error.str()}): start the gateway again"
                    )
            _wake(pending, place)
        for text in sorted(errors):
            log.warning("gateway.not_written", error=text)
        while len(self._known) > self._most_known:
            del self._known[next(iter(self._known))]

    def give_up(self, before: float) -> None:
        """Answer the requests for events that are under way since before this time."""
        for pending in self._under_way.values():
            if pending.since >= before:
                break
            _wake(pending, None)

    async def close(self) -> None:
        """Wait for the events under way for a short time, then answer every request."""
        deadline = monotonic() + _FLUSH_SECONDS
        while self._under_way and monotonic() < deadline:
            await asyncio.sleep(0.01)
        self._thread.end()
        self.give_up(inf)


def _wake(pending: Pending, place: Place | None) -> None:
    for waiter in pending.waiting:
        if not waiter.done():
            waiter.set_result(place)
    pending.waiting.clear()


WRITER: Final = web.AppKey("writer", EventWriter)
CONTRIBUTIONS: Final = web.AppKey("contributions", EventWriter)


def writing(
    gateway: Gateway, place: web.AppKey[EventWriter], topic: str, **properties: Any
) -> Callable[[web.Application], AsyncIterator[None]]:
    """Return the context in which the application has a writer, as `app[place]`."""

    async def context(app: web.Application) -> AsyncIterator[None]:
        writer = app[place] = EventWriter(gateway, topic, **properties)
        looking = asyncio.create_task(_look(writer))
        yield
        looking.cancel()

    return context


async def flush(app: web.Application) -> None:
    """Wait for the events under way, while the requests for them are still open."""
    await asyncio.gather(*(app[place].close() for place in (WRITER, CONTRIBUTIONS) if place in app))


async def _look(writer: EventWriter) -> None:
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        writer.give_up(monotonic() - WAIT_SECONDS)
