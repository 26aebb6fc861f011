"""Reads a topic of one partition from its beginning to its end.

The end is the end offset at the time of reading, not at the start. The consumer is assigned, never
subscribed: it joins no group and commits nothing. Until it is compacted, a topic holds several
records of a key; the caller uses the newest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NoReturn

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    TopicPartition,
)

from stream_app.errors import Unanswered, UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.passing import passes
from stream_app.wire.topics import absent

Progress = Callable[[int, int], None]
_DAMAGED = (KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG)
_DELETE = (
    "the broker's disk has damaged it; if it holds checkpoints, delete it and run murmurec topics "
    "apply: the state is rebuilt from the log"
)
_BATCH = 127
_STALL_SECONDS = 30.0
_ASK_SECONDS = 5.0
_TOPIC_SECONDS = 30.0


def exists(connection: Connection, topic: str) -> bool:
    """Return whether the broker lists the topic; raises `UserError` if it does not answer."""
    consumer = clients.consumer(connection)
    try:
        return topic in clients.listed(consumer, _TOPIC_SECONDS)
    finally:
        consumer.close()


def records(
    connection: Connection,
    topic: str,
    progress: Progress | None = None,
    newest: int | None = None,
    first: int = 0,
) -> Iterator[Message]:
    """Yield every record up to the end at the time of reading, not at the start: compaction may
    remove what was the newest record at the start.

    `newest`: begin that many offsets before the end, for a reader of the newest records only.
    `first`: begin at this offset, if the topic holds it. `progress` is called with (records read,
    records in the topic). Raises as `TopicReader`.
    """
    with TopicReader(connection, topic) as reader:
        if first and first >= reader.end:
            return
        for batch in reader.batches(max(first, reader.before_end(newest)), progress):
            yield from batch


class TopicReader:
    """Reads one topic, several times if need be; `low` and `end` are its offsets at the beginning.

    Raises `UserError` if the topic is absent, damaged or not readable, and `Unanswered` if the
    broker sends nothing for 30 s.
    """

    def __init__(self, connection: Connection, topic: str) -> None:
        self._topic = topic
        self._consumer = clients.consumer(
            connection,
            group=f"{topic}-reading",
            partition_eof=True,
            auto_offset_reset="error",
            # Fewer round trips: a page has 64 KiB, and the default fetches 16 pages at a time.
            fetch_message_max_bytes=16 << 20,
            receive_message_max_bytes=256 << 20,
            # What has arrived and is not yet taken; the default holds 64 MiB.
            queued_max_messages_kbytes=32 << 10,
            fetch_queue_backoff_ms=2,
            # An empty fetch reports the end; a longer wait would only delay it.
            fetch_wait_max_ms=20,
        )
        try:
            self.low, self.end = _watermarks(self._consumer, topic)
        except BaseException:
            self._consumer.close()
            raise

    def __enter__(self) -> TopicReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def before_end(self, newest: int | None) -> int:
        """Return the offset so many before the end, the first one at least."""
        return self.low if newest is None else max(self.low, self.end - newest)

    def batches(self, start: int, progress: Progress | None = None) -> Iterator[list[Message]]:
        """Yield lists of records from `start` up to the end at the time of reading."""
        low = start if start > self.low else self.low
        at = start if start > self.low else OFFSET_BEGINNING
        self._consumer.assign([TopicPartition(self._topic, 0, at)])
        position, ended, progressed, silences = low, False, time.monotonic(), 0
        while not ended:
            batch = []
            # Waits for the first record only: a list is what has arrived.
            for message in self._consumer.consume(1, 0.1) + self._consumer.consume(_BATCH, 0):
                offset, error = message.offset() or 0, message.error()
                if error is None:
                    batch.append(message)
                    position = offset + 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    position, ended = max(position, offset), offset >= self.end
                else:
                    _raise_if_fatal(self._topic, offset, error)
                    continue
                progressed, silences = time.monotonic(), 0
            if batch:
                yield batch
            if progress is not None:
                progress(position - low, max(position, self.end) - low)
            if time.monotonic() - progressed > _STALL_SECONDS:
                self._check_answers()
                progressed, silences = time.monotonic(), silences + 1
                if silences > 1:
                    self._damaged(position)

    def _check_answers(self) -> None:
        try:
            clients.offsets(self._consumer, TopicPartition(self._topic, 0), _ASK_SECONDS)
        except Unanswered:
            raise Unanswered(
                f"topic {self._topic} cannot be read: the broker sent nothing for "
                f"{_STALL_SECONDS:.0f} s; try again"
            ) from None

    def _damaged(self, offset: int) -> NoReturn:
        """Raise for a second silence of a broker that answered after the first, which it may have
        been away for. Where damage makes a record end beyond its batch, librdkafka fetches the
        batch again and again and reports nothing; its check of checksums would abort the process
        for a batch that comes alone."""
        silent = f"for {_STALL_SECONDS:.0f} s"
        raise UserError(
            f"topic {self._topic} cannot be read at offset {offset}: the broker answers, and "
            f"nothing that it sent {silent} is a record; try again; if that stays so, {_DELETE}"
        )


def end_offset(connection: Connection, topic: str) -> int | None:
    """Return the offset after the last record; None where the topic does not exist."""
    consumer = clients.consumer(connection)
    try:
        if topic not in clients.listed(consumer, _TOPIC_SECONDS):
            return None
        return clients.offsets(consumer, TopicPartition(topic, 0))[1]
    finally:
        consumer.close()


def _raise_if_fatal(topic: str, offset: int, error: KafkaError) -> None:
    if error.code() in _DAMAGED:
        raise UserError(
            f"topic {topic} cannot be read at offset {offset} ({error.str()}): {_DELETE}"
        )
    if not passes(error):
        raise UserError(
            f"topic {topic} cannot be read ({error.str()}); check that the topic exists and "
            "grant READ on it"
        )


def _watermarks(consumer: Consumer, topic: str) -> tuple[int, int]:
    """Return the first offset and the end offset; refuses an absent topic."""
    if topic not in clients.listed(consumer, _TOPIC_SECONDS):
        raise UserError(absent(topic))
    return clients.offsets(consumer, TopicPartition(topic, 0))
