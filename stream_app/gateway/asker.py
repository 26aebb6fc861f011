"""Queries under way: sent to Kafka, matched with their answers, ended by a deadline.

    ask (event loop) -> topic of queries -> a worker -> topic of answers -> a thread -> the loop

One producer and one thread with one consumer serve all requests. The consumer belongs to no group:
it reads every answer from the moment on at which it began, and keeps those whose correlation id
waits here. An id has 128 random bits, and the first answer to it that is sealed to its query's key
counts; other records are counted, and it waits on. At most `most` queries are under way; one more
is refused at once. A query without an answer by its deadline ends, and workers refuse it then.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from msgspec.structs import replace

from stream_app.errors import UserError
from stream_app.kafka import broker_answers as answers
from stream_app.kafka import clients
from stream_app.kafka.background_thread import BackgroundThread
from stream_app.kafka.broker_answers import Answer
from stream_app.kafka.clients import Connection
from stream_app.wire import Query, Topics, encode_message
from stream_app.wire.authenticity.sealed_replies import SealedQuery

MOST = 256
"""Queries under way: as many as one worker lets wait."""
SECONDS = 5.0
_BATCH = 256
_POLL_SECONDS = 0.05
_LOOK_SECONDS = 1.0  # while there is no topic of answers
_LOOK_AGAIN_SECONDS = 30.0  # for more partitions of it
_GROUP = "murmurec-gateway"  # never joined
_READING: dict[str, Any] = {"auto_offset_reset": "latest", **clients.BOUNDED_FETCH}


class TooMany(Exception):
    """As many queries as there may be are under way."""


class NoAnswer(Exception):
    """No answer came in time; the argument is one sentence with what may be the reason."""


class Asker:
    """Asks the workers; `ask` belongs to the event loop in which `start` is called."""

    def __init__(
        self, connection: Connection, topics: Topics, seconds: float = SECONDS, most: int = MOST
    ) -> None:
        self._connection, self._topics = connection, topics
        self._seconds, self._most = seconds, most
        self.refused: Callable[[], None] = lambda: None  # by the thread, per record that is none
        self._waiting: dict[str, tuple[asyncio.Future[Answer], SealedQuery]] = {}
        self._producer = clients.producer(
            connection,
            linger_ms=0,
            queue_buffering_max_messages=2 * most,
            message_timeout_ms=int(seconds * 1000),
        )
        self._partitions = 0  # of the queries
        self._listening = asyncio.Event()
        self._thread = BackgroundThread("answers", self._run)

    def __len__(self) -> int:
        return len(self._waiting)

    def start(self) -> None:
        """Begin to read answers."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    async def stop(self) -> None:
        """End the thread; queries under way end without an answer."""
        for future, _ in self._waiting.values():
            if not future.done():
                future.set_exception(NoAnswer("the gateway is stopping"))
        await self._thread.stop(1.0)  # it may wait for a broker that is away

    async def ask(self, query: Query) -> Answer:
        """Return the answer to a query, which gets an id and a deadline here; raises `TooMany` and
        `NoAnswer`."""
        if len(self._waiting) >= self._most:
            raise TooMany
        id = secrets.token_hex(16)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        sealed = SealedQuery(replace(query, id=id))
        self._waiting[id] = future, sealed
        try:
            async with asyncio.timeout(self._seconds) as limit:
                await self._listening.wait()
                left = (limit.when() or 0.0) - loop.time()
                self._send(replace(sealed.query, deadline=int((time.time() + left) * 1000)))
                return await future
        except TimeoutError:
            raise NoAnswer(self._reason(answers.refused_replies(sealed.refused))) from None
        finally:
            del self._waiting[id]

    def _reason(self, refused: str) -> str:
        if not self._listening.is_set():
            return "Kafka does not answer, or has no topic of answers: ask again later"
        return (
            f"no worker answered within {self._seconds:g} s: is a worker running, and is it ready "
            f"(/readyz)?{refused}"
        )

    def _send(self, query: Query) -> None:
        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                self._later(self._lost, query.id)

        try:
            clients.send(
                self._producer,
                self._topics.queries,
                key=query.id.encode(),
                value=encode_message(query),
                partition=answers.place_of(query, self._partitions),
                on_delivery=delivered,
            )
        except BufferError:
            raise TooMany from None
        except UserError as error:
            raise NoAnswer(str(error)) from None

    def _lost(self, id: str) -> None:
        future, _ = self._waiting.get(id, (None, None))
        if future is not None and not future.done():
            future.set_exception(NoAnswer("Kafka did not take the query: ask again later"))

    def _answered(self, id: str, answer: Answer) -> None:
        future, _ = self._waiting.get(id, (None, None))
        if future is not None and not future.done():
            future.set_result(answer)

    # --- the thread -----------------------------------------------------------------------------

    def _later(self, call: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(call, *arguments)

    def _run(self) -> None:
        consumer = clients.consumer(self._connection, group=_GROUP, **_READING)
        places: list[TopicPartition] = []
        looked = float("-inf")
        while not self._thread.ended:
            wait = _LOOK_AGAIN_SECONDS if places else _LOOK_SECONDS
            if time.monotonic() - looked >= wait:
                places = self._followed(consumer, places)
                looked = time.monotonic()
            self._read(consumer)
        consumer.close()

    def _followed(self, consumer: Consumer, places: list[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions that are read now; none while the topic is not there.

        A broker that is away for a moment changes nothing: librdkafka goes on where it was.
        """
        try:
            found = answers.ends(consumer, self._topics.recommendations)
            self._partitions = answers.query_partitions(consumer, self._topics.queries)
        except UserError:
            return places
        if len(found) > len(places):
            # Answers that came to a new partition before this moment are lost, as are their
            # queries: a partition is added while nothing is asked, or by an operator who knows.
            consumer.assign(found)
            self._later(self._listening.set)
            return found
        return places

    def _read(self, consumer: Consumer) -> None:
        """Wait for a record of the topic of answers, and take all that have arrived by then."""
        first = consumer.poll(_POLL_SECONDS)
        with suppress(UserError):  # no right to write: the writer of events ends the gateway
            self._producer.poll(0)
        if first is None:
            return
        for message in (first, *consumer.consume(_BATCH, 0)):
            self._take(message)

    def _take(self, message: Message) -> None:
        key = message.key()
        if message.error() is not None or not isinstance(key, bytes):
            return
        _, sealed = self._waiting.get(key.decode(errors="replace"), (None, None))
        if sealed is None:  # another reader's, or late
            return
        answer = answers.sealed_answer_in(message, sealed)
        if answer is None:
            self.refused()
        else:
            self._later(self._answered, sealed.query.id, answer)
