"""Follows topics: from given offsets to their ends, and on from there.

    begin(places)    assign the consumer; positions are the first offsets
    take(seconds)    the records that came; the positions move behind them
    up_to(ends)      records until every position has reached its end offset

    records(topic)   of one partition, from its beginning to its end at the time of reading

The consumer is assigned, never subscribed: it joins no group and commits nothing. Not every offset
has a record: compaction removes some, and a transaction ends in a marker that is never delivered.
So a position also moves when the broker reports the end of a partition. Until it is compacted, a
topic holds several records of a key; the caller uses the newest.

    an error that passes (`passing`)     waited for
    a batch that cannot be expanded      passed over and counted: no process of this project, and no
                                         damaged disk, puts one into a topic of uncompressed ones
    any other error                      `refuse` raises, or moves the position past it
    silence                              `Unanswered`
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any, NoReturn, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from stream_app.errors import Unanswered, UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.failures.unreadable import expands, readable_from
from stream_app.kafka.passing import passes, refusal
from stream_app.wire.limits import MAX_SEQ
from stream_app.wire.topics import holds_pages

BATCH = 255
STALL_SECONDS = 30.0
TOPIC_SECONDS = 30.0
_POLL_SECONDS = 0.2
_PAGES, _PAGE_SECONDS = 127, 0.1  # a reader of a whole topic takes, and waits
_ASK_SECONDS = 5.0
_DAMAGED = (KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG)
_DELETE = (
    "the broker's disk has damaged it: let another copy lead, or restore it; if it holds "
    "checkpoints, and ratings are kept for good, delete it and run murmurec topics apply: the "
    "state is rebuilt from the log"
)

Place = tuple[str, int]
"""Topic and partition."""
Progress = Callable[[int, int], None]
Refuse = Callable[[Message, KafkaError], None]


class Stopped(Exception):
    """The process was asked to end."""


def cannot_be_read(topic: str | None, error: KafkaError) -> UserError:
    """Return the error for a topic of which a record was refused."""
    fault = f"topic {topic} cannot be read ({error.str()}); check that the topic exists"
    return UserError(refusal(error, f"topic {topic}", "READ", fault))


def _refused(message: Message, error: KafkaError) -> None:
    raise cannot_be_read(message.topic(), error)


class TopicFollower:
    """Reads partitions with one consumer, in one thread; close it, or use it in a `with`.

    `positions`: by place, the offset up to which it was read. `at_end`: the places whose end was
    reported since their last record. `refuse` receives each error that does not pass; without it
    `UserError` is raised. `properties` are those of the consumer.
    """

    def __init__(
        self,
        connection: Connection,
        group: str,
        refuse: Refuse = _refused,
        stall_seconds: float | None = None,
        **properties: Any,
    ) -> None:
        self.consumer: Consumer = clients.consumer(
            connection,
            group=group,
            partition_eof=True,
            **{"auto_offset_reset": "error", **properties},
        )
        self.positions: dict[Place, int] = {}
        self.at_end: set[Place] = set()
        self._refuse, self._connection, self._group = refuse, connection, group
        self.unreadable = 0
        """How many stretches of batches that cannot be expanded were passed over."""
        self.stall_seconds = STALL_SECONDS if stall_seconds is None else stall_seconds
        self._heard = time.monotonic()

    def begin(self, *places: TopicPartition) -> None:
        """Read from the offsets of these places on, and nothing else."""
        self.positions = {(each.topic, each.partition): max(0, each.offset) for each in places}
        self.at_end.clear()
        self.consumer.assign(list(places))
        self.heard()

    def take(self, seconds: float, most: int = BATCH) -> Iterator[Message]:
        """Wait up to `seconds` for a record, and yield those that have arrived by then."""
        for message in self.consumer.consume(1, seconds) + self.consumer.consume(most, 0):
            place, offset = (message.topic() or "", message.partition() or 0), message.offset() or 0
            error = message.error()
            is_end = error is not None and error.code() == KafkaError._PARTITION_EOF
            if error is not None and not is_end:
                # It joins no group, so that it has no right to one is no error.
                if passes(error) or error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                    continue
                if not (expands(error) and self._passes_over(TopicPartition(*place, offset))):
                    self._refuse(message, error)
            elif place in self.positions:  # else of an earlier assignment
                reached = offset if is_end else offset + 1
                self.positions[place] = max(self.positions[place], reached)
                self.heard()
                if is_end:
                    self.at_end.add(place)
                else:
                    self.at_end.discard(place)
                    yield message

    def _passes_over(self, place: TopicPartition) -> bool:
        """Go on after the batches from `place` on that cannot be expanded; False where the topic
        holds compressed ones."""
        if holds_pages(place.topic):
            return False
        # Their checksums, where one is wrong, would end the process.
        end = readable_from(
            self._connection, self._group, place, MAX_SEQ, expands, check_crcs=False
        )
        if end <= place.offset:
            return False
        self.unreadable += 1
        if (place.topic, place.partition) in self.positions:
            self.positions[place.topic, place.partition] = end
            self.consumer.seek(TopicPartition(place.topic, place.partition, end))
            self.heard()
        return True

    def up_to(
        self,
        ends: Mapping[Place, int],
        progress: Progress | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> Iterator[Message]:
        """Yield the records before the end offsets, one for each place; what arrives behind an end
        is passed over. `progress` is called with (offsets read, all).

        Raises `Stopped` where `stopping` returns True, `Unanswered` where the broker sends nothing.
        """
        self.heard()
        first = {place: self.positions[place] for place in ends}
        total = sum(ends[place] - first[place] for place in ends)
        while waiting := {place for place, end in ends.items() if self.positions[place] < end}:
            for message in self.take(_POLL_SECONDS):
                if (message.offset() or 0) < ends[message.topic() or "", message.partition() or 0]:
                    yield message
            if progress is not None:
                done = (min(self.positions[each], end) - first[each] for each, end in ends.items())
                progress(sum(done), total)
            if stopping():
                raise Stopped
            self.check_silence(waiting)

    def heard(self) -> None:
        """Note that the broker sent something."""
        self._heard = time.monotonic()

    @property
    def is_silent(self) -> bool:
        """Whether the broker has sent nothing for long."""
        return time.monotonic() - self._heard > self.stall_seconds

    def check_silence(self, waiting: set[Place] | None = None) -> None:
        """Raise `Unanswered` where the broker has sent nothing for long."""
        if self.is_silent:
            raise self.unanswered(waiting or set(self.positions))

    def unanswered(self, waiting: set[Place]) -> Unanswered:
        """Return the error for a broker that is silent about these places."""
        topics = sorted({topic for topic, _ in waiting})
        name = f"topic{'s' if len(topics) > 1 else ''} {', '.join(topics)}"
        return Unanswered(
            f"{name} cannot be read: the broker sent nothing for {self.stall_seconds:.0f} s; "
            "try again"
        )

    def close(self) -> None:
        """Close the consumer."""
        self.consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def partitions_of_topic(consumer: Consumer, topic: str) -> int:
    """Return how many partitions a topic has; UserError for one that does not exist."""
    found = clients.listed(consumer, TOPIC_SECONDS).get(topic)
    if found is None or found.error is not None:
        raise clients.unlisted(consumer, topic, TOPIC_SECONDS)
    return len(found.partitions)


def exists(connection: Connection, topic: str) -> bool:
    """Return whether there is a topic; raises as `clients.exists`."""
    with closing(clients.consumer(connection)) as consumer:
        return clients.exists(consumer, topic, TOPIC_SECONDS)


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


class TopicReader(TopicFollower):
    """Reads one topic, several times if need be; `low` and `end` are its offsets at the beginning.

    Raises `UserError` if the topic is absent, damaged or not readable, and `Unanswered` if the
    broker sends nothing for 30 s.
    """

    def __init__(self, connection: Connection, topic: str) -> None:
        super().__init__(
            connection,
            f"{topic}-reading",
            _refuse_damaged,
            # Fewer round trips: a page has 64 KiB, and the default fetches 16 pages at a time.
            fetch_message_max_bytes=16 << 20,
            receive_message_max_bytes=256 << 20,
            # What has arrived and is not yet taken; the default holds 64 MiB.
            queued_max_messages_kbytes=32 << 10,
            fetch_queue_backoff_ms=2,
            # An empty fetch reports the end; a longer wait would only delay it.
            fetch_wait_max_ms=20,
            # The digests of pages find damage, after which a worker needs no operator.
            check_crcs=not holds_pages(topic),
        )
        self._place = topic, 0
        try:
            if topic not in clients.listed(self.consumer, TOPIC_SECONDS):
                raise clients.unlisted(self.consumer, topic, TOPIC_SECONDS)
            self.low, self.end = clients.offsets(self.consumer, TopicPartition(*self._place))
        except BaseException:
            self.close()
            raise

    def before_end(self, newest: int | None) -> int:
        """Return the offset so many before the end, the first one at least."""
        return self.low if newest is None else max(self.low, self.end - newest)

    def batches(self, start: int, progress: Progress | None = None) -> Iterator[list[Message]]:
        """Yield lists of records from `start` up to the end at the time of reading."""
        low = max(start, self.low)
        self.begin(TopicPartition(*self._place, start if start > self.low else OFFSET_BEGINNING))
        self.positions[self._place] = position = low
        silences = 0
        while not (self.at_end and position >= self.end):
            if batch := list(self.take(_PAGE_SECONDS, _PAGES)):
                yield batch
            if self.positions[self._place] > position:
                silences = 0
            position = self.positions[self._place]
            if progress is not None:
                progress(position - low, max(position, self.end) - low)
            if self.is_silent:
                self._check_answers()
                self.heard()
                silences += 1
                if silences > 1:
                    self._damaged(position)

    def _check_answers(self) -> None:
        try:
            clients.offsets(self.consumer, TopicPartition(*self._place), _ASK_SECONDS)
        except Unanswered:
            raise self.unanswered({self._place}) from None

    def _damaged(self, offset: int) -> NoReturn:
        """Raise for a second silence of a broker that answered after the first, which it may have
        been away for. Where damage makes a record end beyond its batch, and no checksum is checked,
        librdkafka fetches the batch again and again and reports nothing."""
        raise UserError(
            f"topic {self._place[0]} cannot be read at offset {offset}: the broker answers, and "
            f"nothing that it sent for {self.stall_seconds:.0f} s is a record; try again; if that "
            f"stays so, {_DELETE}"
        )


def end_offset(connection: Connection, topic: str) -> int | None:
    """Return the offset after the last record; None where the topic does not exist."""
    with closing(clients.consumer(connection)) as consumer:
        if not clients.exists(consumer, topic, TOPIC_SECONDS):
            return None
        return clients.offsets(consumer, TopicPartition(topic, 0))[1]


def _refuse_damaged(message: Message, error: KafkaError) -> None:
    if error.code() in _DAMAGED:
        raise UserError(
            f"topic {message.topic()} cannot be read at offset {message.offset() or 0} "
            f"({error.str()}): {_DELETE}"
        )
    raise cannot_be_read(message.topic(), error)
