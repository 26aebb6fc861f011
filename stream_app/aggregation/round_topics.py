"""The two topics of campaigns, as a party and the owner of the clock read and write them.

`RoundTopic` applies the log of rounds to its state, and appends entries that the broker has
acknowledged. `ContributionTopic` gives the records of a closed stage in canonical order. Both are
assigned, never subscribed: they join no group and commit nothing.

Where a reader of the log of rounds may begin: it is kept without limit, and one campaign counts.

    log      plan 4 ... plan 5 ... plan 5' ... end        5' came second: it has no effect
    begin    here ^  the last plan whose number is below those of all plans after it

Read backwards in windows that double, so that the cost is that of the newest campaigns, whatever
came before. From there the state is that of the whole log where plans are written in the order of
their numbers, or two at a time. A writer of the log that forges plans can lead such a reader to one
of them until the next campaign begins; a device then meets keys that it has not pinned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, Message, TopicPartition

from stream_app.aggregation.collection import Record
from stream_app.aggregation.party import RecordsGone
from stream_app.campaigns.rounds import Rounds, StageState
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_follower import (
    Place,
    TopicFollower,
    cannot_be_read,
    partitions_of_topic,
)
from stream_app.wire.campaigns.round_log import Planned, RoundEntry, decode_round, encode_round
from stream_app.wire.reasons import WireError

# Both topics store batches uncompressed (`topic_checks.check_campaigns`): what is fetched at a time
# bounds the memory. Records of open and aborted transactions count: what a stage holds must not
# depend on when it is read.
_FETCH: Mapping[str, Any] = {
    "fetch_message_max_bytes": 2 << 20,
    "queued_max_messages_kbytes": 16 << 10,
    "fetch_wait_max_ms": 20,
    "isolation_level": "read_uncommitted",
}
_POLL_SECONDS = 0.2
_AT_A_TIME = 64  # records of a stage that is open
_SOON_SECONDS = 0.02
# How long the broker keeps a request for an entry that is not there yet, which it answers as soon
# as there is one: 20 ms kept a sixth of a processor busy. What else a connection asks waits behind
# such a request, so the end of the log and where to begin are asked for on another one.
_LOG_WAIT_MILLISECONDS = 500


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
    """The log of rounds on Kafka; `unreadable` counts records that are no entries, by reason.

    newest: begin where the state of the newest campaign follows from (above), as a
    device does. The owner and the parties read from the start: they decide what counts.
    """

    def __init__(self, connection: Connection, topic: str, *, newest: bool = False) -> None:
        self.rounds = Rounds()
        self.unreadable: Counter[str] = Counter()
        self._place = topic, 0
        self._follower = _follower(connection, topic, fetch_wait_max_ms=_LOG_WAIT_MILLISECONDS)
        self._asking = _follower(connection, topic)
        self._writer = AcknowledgedWriter.connect(
            connection, topic, "a round", **clients.LARGE_BATCHES
        )
        if not newest:
            self._follower.begin(TopicPartition(topic, 0, 0))

    def catch_up(self) -> Rounds:
        """Apply what was appended and return the state at the end of the log."""
        topic = self._place[0]
        low, end = clients.offsets(self._asking.consumer, TopicPartition(topic, 0))
        if self._place not in self._follower.positions:
            self._begin(low, end)
        if low > self._position:
            raise UserError(
                f"topic {topic} begins at offset {low}, after what was read: rounds "
                "were deleted; begin a campaign under another topic prefix"
            )
        if end < self._position:
            raise LogChanged(
                f"topic {topic} ends at offset {end} and is shorter than what was read "
                f"({self._position}); start again"
            )
        self._follower.heard()
        while self._position < end:
            self.wait(_POLL_SECONDS)
            self._follower.check_silence()
        return self.rounds

    def wait(self, seconds: float) -> None:
        """Apply what is appended within `seconds`; returns after the first records."""
        try:
            for message in self._follower.take(seconds):
                self._apply(message)
        except RecordsGone:
            raise self._deleted(self._position) from None

    def append(self, entry: RoundEntry) -> None:
        """Append an entry; returns when the broker has acknowledged it."""
        self._writer.send_patiently(value=encode_round(entry))
        self._writer.wait()

    def close(self) -> None:
        """Leave the broker."""
        self._asking.close()
        self._follower.close()

    @property
    def _position(self) -> int:
        return self._follower.positions[self._place]

    def _begin(self, low: int, end: int) -> None:
        """Go to the plan from which the newest campaign follows."""
        try:
            first, number = beginning(self._asking, self._place, low, end)
        except RecordsGone:
            raise self._deleted(low) from None
        self._asking.begin()  # reads nothing any more
        self.rounds = Rounds(newest=number)
        self._follower.begin(TopicPartition(*self._place, first))

    def _apply(self, message: Message) -> None:
        kind, milliseconds = message.timestamp()
        appended = milliseconds / 1000 if kind == TIMESTAMP_LOG_APPEND_TIME else None
        try:
            self.rounds.apply(decode_round(message.value()), appended)
        except WireError as error:
            self.unreadable[error.reason] += 1

    def _deleted(self, offset: int) -> LogChanged:
        return LogChanged(
            f"topic {self._place[0]} does not hold offset {offset} any more: rounds were "
            "deleted; start again"
        )


class ContributionTopic:
    """The contributions on Kafka; reading ends where `stopping` returns True (`Stopped`).

    `partitions`: those in which devices place them; by default as many as the topic has.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        stopping: Callable[[], bool] = lambda: False,
        *,
        partitions: int | None = None,
    ) -> None:
        self._topic, self._used = topic, partitions
        self._stopping = stopping
        self._follower = _follower(connection, topic)
        self._next: list[int] = []  # by partition, while a stage is open

    @property
    def ends(self) -> tuple[int, ...]:
        """The end offset of every partition now."""
        used = self._used or self._partitions()
        return tuple(self._bounds(partition)[1] for partition in range(used))

    def read(self, stage: StageState) -> Iterator[Record]:
        """Yield the records of a closed stage in canonical order.

        Raises `RecordsGone` where the topic does not hold all of them; `Stopped`.
        """
        if len(stage.begins) > self._partitions():
            raise RecordsGone
        windows = list(enumerate(zip(stage.begins, stage.ends, strict=True)))
        for partition, (begin, end) in windows:
            low, high = self._bounds(partition)
            if begin < end and not low <= begin < end <= high:
                raise RecordsGone
        for partition, (begin, end) in windows:
            if begin < end:
                yield from self._window(partition, begin, end)

    def read_on(self, places: tuple[int, ...]) -> Iterator[Record]:
        """Yield some records from these offsets on, in the order of each partition; none of one
        that does not hold its offset. Where these are the offsets after what was yielded before,
        reading goes on, and what was fetched meanwhile is not fetched again."""
        if list(places) != self._next:
            self._follow(places)
        if not places:
            return
        try:
            for message in self._follower.take(_SOON_SECONDS, _AT_A_TIME):
                record = _record(message)
                self._next[record.partition] = record.offset + 1
                yield record
        except RecordsGone:  # deleted since: closing the stage says so
            self._next = []

    def close(self) -> None:
        """Leave the broker."""
        self._follower.close()

    def _follow(self, places: tuple[int, ...]) -> None:
        held = []
        for partition, begin in enumerate(places):
            low, end = self._bounds(partition)
            if low <= begin <= end:
                held.append(TopicPartition(self._topic, partition, begin))
        self._follower.begin(*held)
        self._next = list(places)

    def _window(self, partition: int, begin: int, end: int) -> Iterator[Record]:
        self._next = []
        self._follower.begin(TopicPartition(self._topic, partition, begin))
        for message in self._follower.up_to(
            {(self._topic, partition): end}, stopping=self._stopping
        ):
            yield _record(message)
        self._follower.begin()

    def _partitions(self) -> int:
        return partitions_of_topic(self._follower.consumer, self._topic)

    def _bounds(self, partition: int) -> tuple[int, int]:
        return clients.offsets(self._follower.consumer, TopicPartition(self._topic, partition))


def _record(message: Message) -> Record:
    (_, time), place = message.timestamp(), message.partition() or 0
    return Record(place, message.offset() or 0, message.key(), message.value(), time)


def _follower(connection: Connection, topic: str, **more: Any) -> TopicFollower:
    return TopicFollower(connection, f"{topic}-reading", _refused, **{**_FETCH, **more})


def _refused(message: Message, error: KafkaError) -> None:
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        raise RecordsGone  # deleted since the offsets were looked up
    raise cannot_be_read(message.topic(), error)


_FIRST, _LARGEST = 16, 1024  # offsets of a window


def beginning(follower: TopicFollower, place: Place, low: int, high: int) -> tuple[int, int]:
    """Return the offset at which to begin, and the number of the campaign before it."""
    return first_needed(_backwards(follower, place, low, high), low)


def first_needed(plans: Iterable[tuple[int, int]], low: int) -> tuple[int, int]:
    """Return the offset at which to begin, and the number of the campaign before it.

    plans: (offset, number) of every plan of the log from `low`, the last one first; only as many
    are taken as decide.
    """
    least: int | None = None
    for offset, number in plans:
        if least is None:
            least = number
        elif number < least:
            return offset, number - 1
    return low, 0


def _backwards(
    follower: TopicFollower, place: Place, low: int, high: int
) -> Iterator[tuple[int, int]]:
    size = _FIRST
    while high > low:
        begin = max(low, high - size)
        follower.begin(TopicPartition(*place, begin))
        found = []
        for message in follower.up_to({place: high}):
            try:
                entry = decode_round(message.value())
            except WireError:
                continue
            if isinstance(entry, Planned):
                found.append((message.offset() or 0, entry.campaign.number))
        yield from reversed(found)
        high, size = begin, min(2 * size, _LARGEST)
