"""The first offset and the end offset of every partition of the log, as the broker reports them,
and the sentences for a log that does not hold what a reader needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException, TopicPartition

from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_follower import records
from stream_app.log.canonical_order import Start
from stream_app.wire import Cut, Topics, WireError, decode_entry
from stream_app.wire.limits import MAX_SEQ

if TYPE_CHECKING:
    from stream_app.deployment import Deployment

WAYS_OUT = (
    "restore the topic, continue without them (murmurec worker --accept-gap, which records it), or "
    "start a new deployment (--prefix)"
)
RESTORE = "restore the topic or start a new deployment (--prefix)"
_ABSENT_CHECKS = 3


class EndIsBefore(UserError):
    """A partition ends before an offset that the reader has read."""


def gone_before(deployment: Deployment, ends: Sequence[int]) -> str:
    """Return a sentence naming the first rating partition that no longer holds the records from its
    offset in `ends` on; empty if all do. Those of another shard are not read."""
    consumer = clients.consumer(deployment.connection)
    try:
        for partition in deployment.spec.owned:
            place = TopicPartition(deployment.topics.ratings, partition)
            low = clients.offsets(consumer, place)[0]
            if missing := _missing(place, low, ends[partition]):
                return missing
    finally:
        consumer.close()
    return ""


def _missing(place: TopicPartition, low: int, first: int) -> str:
    """Return a sentence if the partition begins after the offset `first`, else empty."""
    if low <= first:
        return ""
    return (
        f"{place.topic} partition {place.partition} begins at offset {low}, the state continues "
        f"from offset {first}: the records between were deleted"
    )


def unread_records(
    consumer: Consumer, topic: str, used: int, found: int, seconds: float = 10.0
) -> int:
    """Return how many records are in the partitions that were added to a rating topic."""
    added = (TopicPartition(topic, p) for p in range(used, found))
    bounds = (clients.offsets(consumer, place, seconds) for place in added)
    return sum(high - low for low, high in bounds)


def placed_by(partitions: int) -> str:
    """Return what brings records back to the partitions that are read."""
    return (
        f"no worker reads them: let every producer place its records in the first {partitions} "
        f"(devices and gateways: MURMUREC_PARTITIONS={partitions}), and send these again"
    )


def cuts(
    connection: Connection, topic: str, newest: int | None = None, first: int = 0
) -> Iterator[tuple[Cut, float]]:
    """Yield the cuts in a part of the cut log (`records`), and when each was written."""
    for message in records(connection, topic, newest=newest, first=first):
        with suppress(WireError):
            entry = decode_entry(message.value())
            if isinstance(entry, Cut):
                yield entry, message.timestamp()[1] / 1000


class LogBounds:
    """Asks the broker for the bounds of one log, with the consumer of a reader."""

    def __init__(
        self, consumer: Consumer, topics: Topics, partitions: int, owned: Sequence[int]
    ) -> None:
        self._consumer, self._topics, self._partitions = consumer, topics, partitions
        self._owned = owned
        self._absent = 0
        self.lows: dict[tuple[str, int], int] = {}
        """First offsets at the time of the last `check`, by topic and partition."""
        self.unread: int | None = None
        """How many records are in added partitions, which are never read; None without any."""

    def ends(self, seconds: float = 10.0) -> tuple[int, ...]:
        """Return the end offset of every rating partition; of another shard's, which no cut of this
        one moves, the greatest."""
        found = [MAX_SEQ] * self._partitions
        for p in self._owned:
            place = TopicPartition(self._topics.ratings, p)
            found[p] = clients.offsets(self._consumer, place, seconds)[1]
        return tuple(found)

    def check_exchange(self, ends: Sequence[int], seconds: float = 10.0) -> None:
        """Refuse an exchange that does not hold the changes from these offsets on."""
        for shard, end in enumerate(ends):
            place = TopicPartition(self._topics.exchange, shard)
            if missing := _missing(place, clients.offsets(self._consumer, place, seconds)[0], end):
                raise UserError(f"{missing}; {RESTORE}")

    def exchange_lacks(self, ends: Sequence[int], seconds: float = 10.0) -> str:
        """Return a sentence if a partition of the exchange ends before its offset in `ends`."""
        for shard, end in enumerate(ends):
            place = TopicPartition(self._topics.exchange, shard)
            if (high := clients.offsets(self._consumer, place, seconds)[1]) < end:
                return (
                    f"{place.topic} partition {shard} ends at offset {high}, and changes up to "
                    f"offset {end} are to be merged: it lost its end; {RESTORE}"
                )
        return ""

    def check(self, start: Start, seconds: float = 10.0) -> tuple[tuple[int, ...], int]:
        """Return the end offset of each rating partition and of the cut log; refuses a log that
        does not hold the records from the start on, with EndIsBefore where it ends too early."""
        self.check_partitions(seconds)
        ratings = list(start.end_offsets)
        for p in self._owned:
            place = TopicPartition(self._topics.ratings, p)
            ratings[p] = self._end(place, start.end_offsets[p], seconds)
        return tuple(ratings), self._end(
            TopicPartition(self._topics.cuts, 0), start.cut_offset, seconds
        )

    def _end(self, place: TopicPartition, first: int, seconds: float) -> int:
        low, high = clients.offsets(self._consumer, place, seconds)
        self.lows[place.topic, place.partition] = low
        if missing := _missing(place, low, first):
            fix = WAYS_OUT if place.topic == self._topics.ratings else RESTORE
            raise UserError(f"{missing}; {fix}")
        if high < first:
            raise EndIsBefore(
                f"{place.topic} partition {place.partition} ends at offset {high}, the state has "
                f"read it up to offset {first}"
            )
        return high

    def is_lost(self, topic: str, partition: int, offset: int) -> bool:
        """Return whether a partition still begins at or below an offset that cannot be read: its
        end was lost; False if the records there were deleted at the beginning. Raises `Unanswered`
        as every request does that the broker does not answer in time."""
        place = TopicPartition(topic, partition)
        return clients.offsets(self._consumer, place)[0] <= offset

    def check_partitions(self, seconds: float = 10.0) -> None:
        """Refuse a rating topic that is absent in three checks in a row: a broker that has just
        started may not list it yet."""
        ratings = self._topics.ratings
        try:
            listed = self._consumer.list_topics(ratings, timeout=seconds).topics
        except KafkaException:
            return  # `answers` reports a broker that does not answer
        found = len(listed[ratings].partitions)
        self._absent = 0 if found else self._absent + 1
        if self._absent >= _ABSENT_CHECKS:
            raise UserError(f"topic {ratings} does not exist: {RESTORE}")
        if found > self._partitions:
            with suppress(UserError):  # the broker is away
                self.unread = unread_records(self._consumer, ratings, self._partitions, found)

    def answers(self, seconds: float = 1.0) -> bool:
        """Return whether the broker answers a request now; raises as `check_partitions`."""
        place = TopicPartition(self._topics.cuts, 0)
        try:
            answered = self._consumer.get_watermark_offsets(place, timeout=seconds) is not None
        except KafkaException:
            return False
        self.check_partitions(seconds)
        return answered
