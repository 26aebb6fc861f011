"""The two topics of campaigns, as a party and the owner of the clock read and write them.

`RoundTopic` applies the log of rounds to its state, and appends entries that the broker has
acknowledged. `ContributionTopic` gives the records of a closed stage in canonical order. Both are
assigned, never subscribed: they join no group and commit nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Protocol

from confluent_kafka import Message, TopicPartition

from stream_app.aggregation import newest_plan
from stream_app.aggregation.collection import Record
from stream_app.aggregation.party import RecordsGone
from stream_app.aggregation.reading import (
    BATCH,
    FETCH,
    Patience,
    partitions_of_topic,
    reached_by,
    window,
)
from stream_app.campaigns.rounds import Rounds, StageState
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter
from stream_app.kafka.clients import Connection
from stream_app.wire.campaigns.round_log import RoundEntry, decode_round, encode_round
from stream_app.wire.reasons import WireError


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

    newest: begin where the state of the newest campaign follows from (`newest_plan.py`), as a
    device does. The owner and the parties read from the start: they decide what counts.
    """

    def __init__(self, connection: Connection, topic: str, *, newest: bool = False) -> None:
        self.rounds = Rounds()
        self.unreadable: Counter[str] = Counter()
        self._place = TopicPartition(topic, 0, 0)
        self._consumer = clients.consumer(connection, group=f"{topic}-reading", **FETCH)
        self._writer = AcknowledgedWriter.connect(
            connection, topic, "a round", **clients.LARGE_BATCHES
        )
        self._consumer.assign([self._place])
        self._position = 0
        self._newest = newest

    def catch_up(self) -> Rounds:
        """Apply what was appended and return the state at the end of the log."""
        low, end = clients.offsets(self._consumer, self._place)
        if self._newest:
            self._begin(low, end)
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
        waiting = Patience(self._place.topic)
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

    def _begin(self, low: int, end: int) -> None:
        """Go to the plan from which the newest campaign follows."""
        try:
            self._position, number = newest_plan.beginning(self._consumer, self._place, low, end)
        except RecordsGone:
            raise self._deleted(low) from None
        self.rounds = Rounds(newest=number)
        self._place = TopicPartition(self._place.topic, 0, self._position)
        self._consumer.assign([self._place])
        self._newest = False

    def _take(self, seconds: float, waiting: Patience | None) -> None:
        first = self._consumer.consume(1, seconds)
        for message in first + self._consumer.consume(BATCH, 0) if first else ():
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
            return reached_by(message)
        except RecordsGone:
            raise self._deleted(self._position) from None

    def _deleted(self, offset: int) -> LogChanged:
        return LogChanged(
            f"topic {self._place.topic} does not hold offset {offset} any more: rounds were "
            "deleted; start again"
        )


class ContributionTopic:
    """The contributions on Kafka; reading ends where `stopping` returns True (`Stopped`)."""

    def __init__(
        self, connection: Connection, topic: str, stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self._topic = topic
        self._stopping = stopping
        self._consumer = clients.consumer(connection, group=f"{topic}-reading", **FETCH)

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
        place = TopicPartition(self._topic, partition, begin)
        for message in window(self._consumer, place, end, self._stopping):
            yield Record(partition, message.offset() or 0, message.key(), message.value())

    def _partitions(self) -> int:
        return partitions_of_topic(self._consumer, self._topic)

    def _bounds(self, partition: int) -> tuple[int, int]:
        return clients.offsets(self._consumer, TopicPartition(self._topic, partition))
