"""Sending encoded events to Kafka: no event is dropped, and every delivery report is counted.

    send -> librdkafka's queue -> broker -> delivery report -> accepted | failed
             full? wait for reports and try again
    OutboxRelay: the same for messages of a journal, which records the accepted ones

The producer comes from `stream_app.kafka.clients.producer`: idempotent, acks=all, murmur2. One
thread of one process owns a publisher: librdkafka's threads do not survive a fork, so a forked
publisher would never send its queue, and using it raises. After
`close`, `accepted + failed == sent`.

Accounts: a batch on the wire and on the broker's disk carries the producer id of the client that
sent it, so one client for many accounts ties their pseudonyms together, whatever their keys. Where
each account has a client of its own, what is left is that they share an address and a time. At most
`most` clients are open. A further account takes the place of the one that was longest without a
record, once all records of that one are confirmed; until then `produce` raises `BufferError`, as a
full queue does. An account that comes back gets a new client, so its records stay in order.

Partitions: that of a device is murmur2(pseudonym) mod the number that the deployment began with. A
client's own partitioner takes the number that the broker reports now: partitions that were added
since would get records that no worker reads, and others would get records of devices that belong
elsewhere, which workers reject.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from confluent_kafka import KafkaException

from producers.journal import Journal, Message
from producers.ownership import Owner
from stream_app.errors import UserError
from stream_app.kafka import passing
from stream_app.wire.ids import partition_of

_REPORTS_EVERY = 256  # records sent between two polls for delivery reports
DEADLINE_SECONDS = 30.0


class Producer(Protocol):
    """The part of `confluent_kafka.Producer` that is used."""

    def produce(
        self, topic: str, *, key: bytes, value: bytes, headers: Any = None, on_delivery: Any
    ) -> None:
        """Put a record into the queue; BufferError when it is full."""

    def poll(self, timeout: float) -> int:
        """Serve delivery reports for at most `timeout` seconds."""

    def flush(self, timeout: float) -> int:
        """Wait for all reports; return how many records are still without one."""


@dataclass(frozen=True)
class RecordPosition:
    """Partition and offset of an accepted record."""

    partition: int
    offset: int


@dataclass
class Publisher:
    """A publisher to one topic; use it as a context manager, or call `close`.

    A refused record is counted and the others still go, while `AcknowledgedWriter` raises at the
    first refusal: one device among thousands must not stop the rest.

    A queue that stays full for `patience_seconds` without a delivery report raises `UserError`: the
    broker is down, and its caller learns that records were not sent.
    """

    producer: Producer
    topic: str
    patience_seconds: float = 60.0
    clock: Callable[[], float] = time.monotonic
    sent: int = field(default=0, init=False)
    accepted: int = field(default=0, init=False)
    failed: int = field(default=0, init=False)
    first_error: str = field(default="", init=False)
    last: RecordPosition | None = field(default=None, init=False)
    _owner: Owner = field(default_factory=lambda: Owner("publisher"), init=False, repr=False)
    _closed: bool = field(default=False, init=False)

    def send(
        self,
        key: bytes,
        value: bytes,
        *,
        topic: str | None = None,
        headers: list[tuple[str, bytes]] | None = None,
        accepted: Callable[[RecordPosition], object] | None = None,
    ) -> None:
        """Enqueue one record; waits while the queue is full and raises rather than drop it.

        `accepted` is called once, within a later call of this object, with the record's position.
        """
        self._check()
        name = self.topic if topic is None else topic
        report = partial(self._delivered, name, accepted=accepted)

        def queued() -> bool:
            try:
                self.producer.produce(
                    name, key=key, value=value, headers=headers, on_delivery=report
                )
            except BufferError:
                return False
            except KafkaException as error:
                fault = f"Kafka accepts no more records: {error.args[0].str()}"
                sentence = passing.refusal(error.args[0], f"topic {name}", "WRITE", fault)
                raise UserError(sentence) from None
            return True

        self.wait(queued)
        self.sent += 1
        if self.sent % _REPORTS_EVERY == 0:
            self.producer.poll(0)

    def wait(self, done: Callable[[], bool]) -> None:
        """Serve delivery reports until `done()`; UserError after `patience_seconds` without one."""
        self._check()
        deadline, reports = self.clock() + self.patience_seconds, self.accepted + self.failed
        while not done():
            self.producer.poll(0.1)
            if self.accepted + self.failed > reports:
                reports = self.accepted + self.failed
                deadline = self.clock() + self.patience_seconds
            elif self.clock() >= deadline:
                raise UserError(
                    f"Kafka has confirmed nothing for {self.patience_seconds:g} seconds "
                    "and the queue is full; check the broker, then run the command again"
                )

    def close(self, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        """Wait for the delivery reports; a record without one at the deadline counts as failed."""
        if self._closed:
            return
        self._check()
        self._closed = True
        self.producer.flush(deadline_seconds)
        open_reports = self.sent - self.accepted - self.failed
        if open_reports:
            self.failed += open_reports
            self.first_error = (
                self.first_error or f"no answer from the broker within {deadline_seconds:g} seconds"
            )

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        # On an exception wait only 3 s for outstanding delivery reports.
        self.close(DEADLINE_SECONDS if error is None else 3.0)

    def _delivered(
        self,
        topic: str,
        error: Any,
        record: Any,
        accepted: Callable[[RecordPosition], object] | None,
    ) -> None:
        if error is None and accepted is not None:
            accepted(RecordPosition(record.partition(), record.offset()))
        if self._closed and self.accepted + self.failed >= self.sent:
            return  # `close` has counted it as failed
        if error is not None:
            self.failed += 1
            self.first_error = self.first_error or refusal(error, topic)
        else:
            self.accepted += 1
            self.last = RecordPosition(record.partition(), record.offset())

    def _check(self) -> None:
        if self._closed:
            raise RuntimeError("publisher: it is closed; open another one")
        self._owner.check()


def refusal(error: Any, topic: str) -> str:
    """Why the broker did not accept a record: one sentence; a missing right is named."""
    return passing.refusal(error, f"topic {topic}", "WRITE", str(error.str()))


@dataclass
class OutboxRelay:
    """Relays the outbox of a journal to the broker and acknowledges accepted messages.

    After a failed record nothing more is sent: the server drops a seq that arrives after a larger
    one of the same device, so the failed message would be lost. It stays in the journal, and the
    next run sends the same bytes.
    """

    journal: Journal
    publisher: Publisher
    places: dict[int, RecordPosition] = field(default_factory=dict, init=False)

    def send(self, message: Message, *, kept: bool = False) -> None:
        """Send one message; with `kept` its position is stored in `places` once accepted."""
        if self.publisher.failed:
            raise UserError(
                f"{self.publisher.failed} events were not accepted: "
                f"{self.publisher.first_error}; they are kept, and "
                "the next run sends the same bytes"
            )

        def accepted(place: RecordPosition) -> None:
            self.journal.acknowledge(message.number)
            if kept:
                self.places[message.number] = place

        self.publisher.send(
            message.key,
            message.value,
            topic=message.topic,
            headers=self.journal.headers(message),
            accepted=accepted,
        )

    def resend(self, topics: Collection[str]) -> tuple[int, int]:
        """Send pending messages of earlier runs to these topics; return (sent, left for others)."""
        waiting = self.journal.pending()
        resent = [message for message in waiting if message.topic in topics]
        for message in resent:
            self.send(message)
        return len(resent), len(waiting) - len(resent)

    def make_room(self) -> None:
        """Wait until half of the outbox is free, or a record has failed."""
        half = self.journal.outbox_bytes // 2
        self.publisher.wait(lambda: self.journal.waiting_bytes <= half or self.publisher.failed > 0)

    def settle(self) -> None:
        """Wait until the broker has accepted or refused all that was sent."""
        publisher = self.publisher
        publisher.wait(lambda: publisher.accepted + publisher.failed >= publisher.sent)


MOST = 64


@dataclass
class AccountProducers:
    """A `Producer` that gives each record key a client of its own, made by `make`."""

    make: Callable[[], Producer]
    most: int = MOST
    clock: Callable[[], float] = time.monotonic
    _open: OrderedDict[bytes, Producer] = field(default_factory=OrderedDict, init=False)

    def __post_init__(self) -> None:
        if self.most < 1:
            raise ValueError(f"most {self.most}: at least 1 producer")

    def __len__(self) -> int:
        """Number of open clients."""
        return len(self._open)

    def produce(
        self, topic: str, *, key: bytes, value: bytes, headers: Any = None, on_delivery: Any
    ) -> None:
        """Put a record into the queue of its account; BufferError when it is full, or when no
        client can be closed yet."""
        client = self._open.get(key)
        if client is None:
            if len(self._open) >= self.most:
                self._close_oldest()
            client = self._open[key] = self.make()
        client.produce(topic, key=key, value=value, headers=headers, on_delivery=on_delivery)
        self._open.move_to_end(key)

    def poll(self, timeout: float) -> int:
        """Serve the delivery reports of all clients; wait for at most `timeout` seconds, on the
        account that was longest without a record."""
        clients = list(self._open.values())
        served = sum(client.poll(0) for client in clients)
        if not served and clients and timeout > 0:
            served = clients[0].poll(timeout)
        return served

    def flush(self, timeout: float) -> int:
        """Wait for all reports; return how many records are still without one."""
        deadline = self.clock() + timeout
        return sum(
            client.flush(max(0.0, deadline - self.clock())) for client in self._open.values()
        )

    def _close_oldest(self) -> None:
        key = next(iter(self._open))
        if self._open[key].flush(0.0):
            raise BufferError("the records of an earlier account are not confirmed yet")
        del self._open[key]


@dataclass(frozen=True, eq=False)
class PlacedProducer:
    """A `Producer` whose records of one topic lie in the first `partitions` of it."""

    producer: Any
    topic: str
    partitions: int

    def produce(
        self, topic: str, *, key: bytes, value: bytes, headers: Any = None, on_delivery: Any
    ) -> None:
        """Put a record into the queue; BufferError when it is full."""
        where = {"partition": partition_of(key, self.partitions)} if topic == self.topic else {}
        self.producer.produce(
            topic, key=key, value=value, headers=headers, on_delivery=on_delivery, **where
        )

    def poll(self, timeout: float) -> int:
        """Serve delivery reports for at most `timeout` seconds."""
        return int(self.producer.poll(timeout))

    def flush(self, timeout: float) -> int:
        """Wait for all reports; return how many records are still without one."""
        return int(self.producer.flush(timeout))
