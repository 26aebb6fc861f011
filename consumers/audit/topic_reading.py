"""Reads whole topics, every partition from its beginning to its end at the start of the reading.

The consumer is assigned, never subscribed: it joins no group, commits nothing and leaves no trace
but its fetches. What outsiders write is fetched in small pieces, as a worker does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    TopicPartition,
)

from consumers.audit.records import Record, Source
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.passing import passes
from stream_app.wire import Topics

Progress = Callable[[int, int], None]
_BATCH = 500
_STALL_SECONDS = 30.0


def read_topics(
    connection: Connection, topics: Topics, progress: Progress | None = None
) -> Iterator[Record]:
    """Yield the records of the topics of ratings, profiles and replies that exist.

    Raises `UserError` where the topic of ratings does not exist, or a topic cannot be read.
    """
    consumer = clients.consumer(
        connection,
        group=f"{topics.prefix}-audit",
        partition_eof=True,
        auto_offset_reset="error",
        **clients.BOUNDED_FETCH,
    )
    try:
        yield from _all(consumer, topics, progress)
    finally:
        consumer.close()


def _all(consumer: Consumer, topics: Topics, progress: Progress | None) -> Iterator[Record]:
    sources = {
        topics.ratings: Source.RATINGS,
        topics.profiles: Source.PROFILES,
        topics.recommendations: Source.REPLIES,
    }
    listed = clients.listed(consumer, _STALL_SECONDS)
    if topics.ratings not in listed:
        raise UserError(
            f"topic {topics.ratings} does not exist: give the deployment's prefix as --prefix"
        )
    ends: dict[tuple[str, int], tuple[int, int]] = {}
    for name in sources:
        for partition in sorted(listed[name].partitions) if name in listed else ():
            low, end = clients.offsets(consumer, TopicPartition(name, partition))
            if low < end:
                ends[name, partition] = low, end
    yield from _records(consumer, sources, ends, progress)


def _records(
    consumer: Consumer,
    sources: dict[str, Source],
    ends: dict[tuple[str, int], tuple[int, int]],
    progress: Progress | None,
) -> Iterator[Record]:
    total = sum(end - low for low, end in ends.values())
    position = {place: low for place, (low, _) in ends.items()}
    waiting = set(ends)
    if waiting:
        consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in sorted(waiting)])
    progressed = time.monotonic()
    while waiting:
        for message in consumer.consume(_BATCH, 0.2):
            place = str(message.topic()), int(message.partition() or 0)
            offset, error = message.offset() or 0, message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                _raise_if_fatal(place[0], error)
                continue
            if error is None and offset < ends[place][1]:
                yield _record(message, sources[place[0]], place[1], offset)
            position[place] = min(offset + (error is None), ends[place][1])
            if position[place] >= ends[place][1]:
                waiting.discard(place)
            progressed = time.monotonic()
        if progress is not None:
            progress(sum(at - ends[place][0] for place, at in position.items()), total)
        if time.monotonic() - progressed > _STALL_SECONDS:
            raise UserError(
                f"topics {', '.join(sorted({name for name, _ in waiting}))} cannot be read: the "
                f"broker sent nothing for {_STALL_SECONDS:.0f} s; try again"
            )


def _record(message: Message, source: Source, partition: int, offset: int) -> Record:
    _, milliseconds = message.timestamp()
    headers = len(message.headers() or ())
    return Record(source, partition, offset, milliseconds, message.key(), message.value(), headers)


def _raise_if_fatal(topic: str, error: KafkaError) -> None:
    if not passes(error):
        raise UserError(
            f"topic {topic} cannot be read ({error.str()}); check that the topic exists and grant "
            "READ on it"
        )
