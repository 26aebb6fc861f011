"""Reads whole topics, every partition from its beginning to its end at the start of the reading.

The consumer is assigned, never subscribed: it joins no group, commits nothing and leaves no trace
but its fetches. What outsiders write is fetched in small pieces, as a worker does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from confluent_kafka import OFFSET_BEGINNING, Message, TopicPartition

from consumers.audit.campaigns.checks import Read
from consumers.audit.campaigns.receipts import Receipt, Remembered, receipts
from consumers.audit.campaigns.stated import Stated, stated
from consumers.audit.observed import Record, Source
from stream_app.aggregation.round_topics import ContributionTopic
from stream_app.errors import UserError
from stream_app.kafka import clients, topic_follower
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_follower import Progress, TopicFollower
from stream_app.wire import Topics
from stream_app.wire.signatures import TAG, TAG_BYTES


def read_topics(
    connection: Connection, topics: Topics, progress: Progress | None = None
) -> Iterator[Record]:
    """Yield the records of the topics of ratings and replies that exist.

    Raises `UserError` where the topic of ratings does not exist, or a topic cannot be read.
    """
    sources = {
        topics.ratings: Source.RATINGS,
        topics.recommendations: Source.REPLIES,
    }
    with TopicFollower(connection, f"{topics.prefix}-audit", **clients.BOUNDED_FETCH) as follower:
        found = {name for name in sources if clients.exists(follower.consumer, name)}
        if topics.ratings not in found:
            raise UserError(
                f"topic {topics.ratings} does not exist: give the deployment's prefix as --prefix"
            )
        listed = clients.listed(follower.consumer)
        lows, ends = {}, {}
        for name in sorted(found):
            for partition in sorted(listed[name].partitions):
                low, end = clients.offsets(follower.consumer, TopicPartition(name, partition))
                if low < end:
                    lows[name, partition], ends[name, partition] = low, end
        follower.begin(*(TopicPartition(*place, OFFSET_BEGINNING) for place in sorted(ends)))
        follower.positions.update(lows)
        for message in follower.up_to(ends, progress):
            yield _record(message, sources[str(message.topic())])


def _record(message: Message, source: Source) -> Record:
    _, milliseconds = message.timestamp()
    partition, offset = message.partition() or 0, message.offset() or 0
    given = clients.headers_of(message)
    headers = [(name, len(content or b"")) for name, content in given or ()]
    tagged = headers == [(TAG, TAG_BYTES)] and source is not Source.REPLIES
    odd = 1 if given is None else 0 if tagged else len(headers)
    return Record(source, partition, offset, milliseconds, message.key(), message.value(), odd)


def read_rounds(connection: Connection, topics: Topics) -> Stated:
    """Return what the log of rounds states; nothing where there is none."""
    if not topic_follower.exists(connection, topics.rounds):
        return Stated()
    return stated(message.value() for message in topic_follower.records(connection, topics.rounds))


def read_receipts(
    connection: Connection, topics: Topics, device: bytes, journal: Remembered
) -> list[Receipt]:
    """Return what became of each contribution of a device; reads the stages that it was in."""
    with closing(ContributionTopic(connection, topics.contributions)) as topic:
        return list(receipts(read_rounds(connection, topics), topic, device, journal))


@contextmanager
def contributions(connection: Connection, topics: Topics) -> Iterator[Read]:
    """Give a function that reads the records of a closed stage."""
    with closing(ContributionTopic(connection, topics.contributions)) as topic:
        yield topic.read
