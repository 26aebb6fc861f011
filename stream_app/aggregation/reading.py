"""Reading a partition to an offset, and the patience with a broker that does not answer.

Not every offset has a record: a transaction ends in a marker, which is never delivered. So reading
ends at the end of the partition, and takes the records of open and aborted transactions: what a
stage holds must not depend on when it is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from stream_app.aggregation.party import RecordsGone
from stream_app.errors import Unanswered, UserError
from stream_app.kafka import clients
from stream_app.kafka.passing import passes
from stream_app.wire.topics import absent

BATCH = 200
_STALL_SECONDS = 30.0
_TOPIC_SECONDS = 30.0
# Both topics store batches uncompressed (`topic_checks.check_campaigns`): what is fetched at a time
# bounds the memory.
FETCH: Mapping[str, Any] = {
    "fetch_message_max_bytes": 2 << 20,
    "queued_max_messages_kbytes": 16 << 10,
    "fetch_wait_max_ms": 20,
    "auto_offset_reset": "error",
    "partition_eof": True,
    "isolation_level": "read_uncommitted",
}


class Stopped(Exception):
    """The process was asked to end."""


def window(
    consumer: Consumer,
    place: TopicPartition,
    end: int,
    stopping: Callable[[], bool] = lambda: False,
) -> Iterator[Message]:
    """Yield the records of a partition from the offset of `place` to before `end`; the consumer is
    assigned to it meanwhile. Raises `Stopped`, `RecordsGone`, and `UserError` without an answer."""
    consumer.assign([place])
    waiting, position = Patience(place.topic), place.offset
    while position < end:
        for message in consumer.consume(1, 0.2) + consumer.consume(BATCH, 0):
            reached = reached_by(message)
            if reached is None or message.partition() != place.partition:
                continue
            position = max(position, reached)
            waiting.progress()
            if message.error() is None and reached <= end:
                yield message
        if stopping():
            raise Stopped
        waiting.check()
    consumer.unassign()


class Patience:
    """Raises `Unanswered` where the broker has sent nothing for 30 s."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._since = time.monotonic()

    def progress(self) -> None:
        """Note that a record or an end came."""
        self._since = time.monotonic()

    def check(self) -> None:
        """Raise `Unanswered` where that was too long ago."""
        if time.monotonic() - self._since > _STALL_SECONDS:
            raise Unanswered(
                f"topic {self._topic} cannot be read: the broker sent nothing for "
                f"{_STALL_SECONDS:.0f} s; try again"
            )


def reached_by(message: Message) -> int | None:
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
    if not passes(error):
        raise UserError(
            f"topic {message.topic()} cannot be read ({error.str()}); check that the topic exists "
            "and grant READ on it"
        )
    return None


def partitions_of_topic(consumer: Consumer, topic: str) -> int:
    """Return how many partitions a topic has; UserError for one that does not exist."""
    found = clients.listed(consumer, _TOPIC_SECONDS).get(topic)
    if found is None or found.error is not None:
        raise UserError(absent(topic))
    return len(found.partitions)
