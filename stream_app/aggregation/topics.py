"""The two topics of campaigns, as a party and the owner of the clock read and write them.

`RoundTopic` applies the log of rounds to its state, and appends entries that the broker has
acknowledged. `ContributionTopic` gives the records of a closed stage in canonical order. Both are
assigned, never subscribed: they join no group and commit nothing.

Not every offset has a record: a transaction ends in a marker, which is never delivered. So reading
ends at the end of the partition, and takes the records of open and aborted transactions: what a
stage holds must not depend on when it is read.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from stream_app.aggregation.collection import Record
from stream_app.aggregation.party import RecordsGone
from stream_app.campaigns.rounds import Rounds, StageState
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter
from stream_app.kafka.clients import Connection
from stream_app.wire.campaigns.round_log import RoundEntry, decode_round, encode_round
from stream_app.wire.reasons import WireError

_BATCH = 200
_STALL_SECONDS = 30.0
_TOPIC_SECONDS = 30.0
# Both topics store batches as they are sent or uncompressed (`topic_checks.check_campaigns`): what
# is fetched at a time bounds the memory.
_FETCH: Mapping[str, Any] = {
    "fetch_message_max_bytes": 2 << 20,
    "queued_max_messages_kbytes": 16 << 10,
    "fetch_wait_max_ms": 20,
    "auto_offset_reset": "error",
    "partition_eof": True,
    "isolation_level": "read_uncommitted",
}


class RoundLog(Protocol):
    """The log of rounds, wherever it is."""

    rounds: Rounds

    def catch_up(self) -> Rounds:
        """Apply what was appended and return the state at the end of the log."""

    def append(self, entry: RoundEntry) -> None:
        """Append an entry; returns when it is durable."""


class LogChanged(UserError):
    """The log is not the one that was read: it was made again, or its records were deleted. A new
    reader begins at its start."""


class RoundTopic:
    """The log of rounds on Kafka; `unreadable` counts records that are no entries, by reason."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self.rounds = Rounds()
        self.unreadable: Counter[str] = Counter()
        self._place = TopicPartition(topic, 0, 0)
        self._consumer = clients.consumer(connection, group=f"{topic}-reading", **_FETCH)
        self._writer = AcknowledgedWriter.connect(
            connection, topic, "a round", **clients.LARGE_BATCHES
        )
        self._consumer.assign([self._place])
        self._position = 0

    def catch_up(self) -> Rounds:
        """Apply what was appended and return the state at the end of the log."""
        low, end = clients.offsets(self._consumer, self._place)
        if low > self._position:
            raise UserError(
                f"topic {self._place.topic} begins at offset {low}, after what was read: rounds "
                "were deleted; begin a campaign under another topic prefix"
            )
        if end < self._position:
            raise LogChanged(
                f"topic {self._place.topic} ends at offset {end} and is shorter than what was read "
                f"({self._position}); start again"
            )
        waiting = _Patience(self._place.topic)
        while self._position < end:
            self._take(0.2, waiting)
        return self.rounds

    def wait(self, seconds: float) -> None:
        """Apply what is appended within `seconds`; returns after the first records."""
        self._take(seconds, None)

    def append(self, entry: RoundEntry) -> None:
        """Append an entry; returns when the broker has acknowledged it."""
        self._writer.send_patiently(value=encode_round(entry))
        self._writer.wait()

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()

    def _take(self, seconds: float, waiting: _Patience | None) -> None:
        first = self._consumer.consume(1, seconds)
        for message in first + self._consumer.consume(_BATCH, 0) if first else ():
            reached = self._reached(message)
            if reached is None:
                continue
            self._position = max(self._position, reached)
            if message.error() is None:
                self._apply(message)
            if waiting is not None:
                waiting.progress()
        if waiting is not None:
            waiting.check()

    def _apply(self, message: Message) -> None:
        try:
            self.rounds.apply(decode_round(message.value()))
        except WireError as error:
            self.unreadable[error.reason] += 1

    def _reached(self, message: Message) -> int | None:
        try:
            return _reached(message)
        except RecordsGone:
            raise LogChanged(
                f"topic {self._place.topic} does not hold offset {self._position} any more: rounds "
                "were deleted; start again"
            ) from None


class ContributionTopic:
    """The contributions on Kafka; reading ends where `stopping` returns True (`Stopped`)."""

    def __init__(
        self, connection: Connection, topic: str, stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self._topic = topic
        self._stopping = stopping
        self._consumer = clients.consumer(connection, group=f"{topic}-reading", **_FETCH)

    @property
    def ends(self) -> tuple[int, ...]:
        """The end offset of every partition now."""
        return tuple(self._bounds(partition)[1] for partition in range(self._partitions()))

    def read(self, stage: StageState) -> Iterator[Record]:
        """Yield the records of a closed stage in canonical order.

        Raises `RecordsGone` where the topic does not hold all of them; `Stopped`.
        """
        if len(stage.begins) != self._partitions():
            raise RecordsGone
        windows = list(enumerate(zip(stage.begins, stage.ends, strict=True)))
        for partition, (begin, end) in windows:
            low, high = self._bounds(partition)
            if begin < end and not low <= begin < end <= high:
                raise RecordsGone
        for partition, (begin, end) in windows:
            if begin < end:
                yield from self._window(partition, begin, end)

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()

    def _window(self, partition: int, begin: int, end: int) -> Iterator[Record]:
        self._consumer.assign([TopicPartition(self._topic, partition, begin)])
        waiting = _Patience(self._topic)
        position = begin
        while position < end:
            for message in self._consumer.consume(1, 0.2) + self._consumer.consume(_BATCH, 0):
                reached = _reached(message)
                if reached is None or message.partition() != partition:
                    continue
                position = max(position, reached)
                waiting.progress()
                if message.error() is None and reached <= end:
                    yield Record(partition, reached - 1, message.key(), message.value())
            if self._stopping():
                raise Stopped
            waiting.check()
        self._consumer.unassign()

    def _partitions(self) -> int:
        return _partitions(self._consumer, self._topic)

    def _bounds(self, partition: int) -> tuple[int, int]:
        return clients.offsets(self._consumer, TopicPartition(self._topic, partition))


class Stopped(Exception):
    """The process was asked to end."""


class _Patience:
    """Raises `UserError` where the broker has sent nothing for 30 s."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._since = time.monotonic()

    def progress(self) -> None:
        self._since = time.monotonic()

    def check(self) -> None:
        if time.monotonic() - self._since > _STALL_SECONDS:
            raise UserError(
                f"topic {self._topic} cannot be read: the broker sent nothing for "
                f"{_STALL_SECONDS:.0f} s; try again"
            )


def _reached(message: Message) -> int | None:
    """Return the offset up to which a partition is read: after a record, or its end; None for an
    error that passes. Raises `RecordsGone`, and `UserError` for an error that does not pass."""
    error = message.error()
    offset = message.offset() or 0
    if error is None:
        return offset + 1
    if error.code() == KafkaError._PARTITION_EOF:
        return offset
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        raise RecordsGone  # deleted since the offsets were looked up
    if not error.retriable():
        raise UserError(
            f"topic {message.topic()} cannot be read ({error.str()}); check that the topic exists "
            "and grant READ on it"
        )
    return None


def _partitions(consumer: Consumer, topic: str) -> int:
    found = clients.listed(consumer, _TOPIC_SECONDS).get(topic)
    if found is None or found.error is not None:
        raise UserError(f"topic {topic} does not exist: create it with murmurec topics apply")
    return len(found.partitions)
