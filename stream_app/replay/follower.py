"""Following the log: a consumer that reads the ratings and the cuts and gives them out in canonical
order.

One consumer is assigned to every rating partition and to the cut log at explicit offsets, those of
a checkpoint or the beginning; it never joins a group and never commits, so nothing that happens to
a group can make it skip or repeat. A log that no longer reaches back to where it is taken up, or
that has other partitions than it is read with, is refused. A partition whose buffer holds more than
six rounds is paused until it has drained: with fewer, the pauses cost a factor of three (measured).

The worker's reader thread, the offline digest and the demo's own check use the same follower.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from stream_app.deployment import Deployment
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.log.canonical_order import OrderError, Rounds, Start
from stream_app.serving.catalogue import Catalogue
from stream_app.wire import (
    Batch,
    Cut,
    DigestReport,
    Forget,
    WireError,
    decode_entry,
    decode_many,
)

WAYS_OUT = (
    "restore the topic, go on without them (murmurec worker --accept-gap, which records it), or "
    "start a new deployment (--prefix)"
)
_RESTORE = "restore the topic or start a new deployment (--prefix)"
_BATCH = 256
_ROUNDS_AHEAD = 6
_ASKED = 3


@dataclass(frozen=True, eq=False)
class Decoded:
    """The next piece of the log: a decoded run, the cut that ends its round, a device to forget
    before the next run, or a digest report; `cut_offset` is where the cut log goes on after the
    entry."""

    batch: Batch | None
    cut: Cut | None
    cut_offset: int = 0
    forget: Forget | None = None
    digest_report: DigestReport | None = None


def gone_before(connection: Connection, topic: str, ends: Sequence[int]) -> str:
    """Return in words where a topic no longer holds what comes after these offsets (one for each
    partition), empty where it does."""
    consumer = clients.consumer(connection)
    try:
        for partition, end in enumerate(ends):
            place = TopicPartition(topic, partition)
            if gone := _gone(place, clients.offsets(consumer, place)[0], end):
                return gone
    finally:
        consumer.close()
    return ""


def _gone(place: TopicPartition, low: int, first: int) -> str:
    """Return in words that what comes after an offset is gone, empty where it is there."""
    if low <= first:
        return ""
    return (
        f"{place.topic} partition {place.partition} begins at offset {low}, the state goes on from "
        f"offset {first}: the records between are gone"
    )


class Follower:
    """Reads the log of one deployment after `start`, or from its beginning."""

    def __init__(
        self,
        deployment: Deployment,
        start: Start | None = None,
        round_records: int = 2000,
        catalogue: Catalogue | None = None,
    ) -> None:
        self.topics = topics = deployment.topics
        self.intake = deployment.spec.intake
        self.rounds = Rounds(deployment.partitions, start)
        self.cuts_ignored = 0
        self.cuts_at_end = False
        self.design = deployment.spec.digest
        self.other_design = ""
        self._live = False
        self._absent = 0
        self._most_buffered = _ROUNDS_AHEAD * round_records
        self._paused: set[int] = set()
        self._catalogue = catalogue
        self._consumer: Consumer = clients.consumer(
            deployment.connection,
            group=f"{topics.prefix}-follower",
            partition_eof=True,
            auto_offset_reset="error",
            queued_max_messages_kbytes=16384,
            # An empty fetch reports the end of the cut log: the default of 500 ms
            # would be lost at every start.
            fetch_wait_max_ms=100,
        )
        # Offsets and never "the beginning": where records are gone, that would pass over them.
        start = self.rounds.start
        places = [TopicPartition(topics.ratings, p, end) for p, end in enumerate(start.end_offsets)]
        places.append(TopicPartition(topics.cuts, 0, start.cut_offset))
        if catalogue is not None:
            places.append(TopicPartition(topics.items, 0, OFFSET_BEGINNING))
        self._waiting = places

    def log_end_offsets(self, seconds: float = 10.0) -> tuple[tuple[int, ...], int]:
        """Return the end offset of each rating partition and of the cut log, asked of the broker;
        refuses a log that does not hold what this follower is to read."""
        self.check_partitions(seconds)
        start = self.rounds.start
        ratings = tuple(
            self._end(TopicPartition(self.topics.ratings, p), start.end_offsets[p], seconds)
            for p in range(self.intake.partitions)
        )
        return ratings, self._end(TopicPartition(self.topics.cuts, 0), start.cut_offset, seconds)

    def _end(self, place: TopicPartition, first: int, seconds: float) -> int:
        low, high = clients.offsets(self._consumer, place, seconds)
        if gone := _gone(place, low, first):
            fix = WAYS_OUT if place.topic == self.topics.ratings else _RESTORE
            raise UserError(f"{gone}; {fix}")
        if high < first:
            raise UserError(
                f"{place.topic} partition {place.partition} ends at offset {high}, the state has "
                f"read it up to offset {first}: records that were learned are gone, or the topic "
                f"was recreated; {_RESTORE}"
            )
        return high

    def check_partitions(self, seconds: float = 10.0) -> None:
        """Refuse a rating topic that has got more partitions, which would never be read, and one
        that was not there three times in a row: a broker that has just started knows little."""
        try:
            there = self._consumer.list_topics(self.topics.ratings, timeout=seconds).topics
        except KafkaException:
            return  # whether the broker answers is asked elsewhere
        found = len(there[self.topics.ratings].partitions)
        self._absent = 0 if found else self._absent + 1
        if self._absent >= _ASKED:
            raise UserError(f"topic {self.topics.ratings} is gone: {_RESTORE}")
        if found > self.intake.partitions:
            raise UserError(
                f"{self.topics.ratings} has {found} partitions, not {self.intake.partitions}: the "
                "count is fixed for life, since a device's partition depends on it; start a new "
                "deployment (--prefix)"
            )

    def answers(self, seconds: float = 1.0) -> bool:
        """Return whether the broker answers a question now; refuses partitions that came later."""
        place = TopicPartition(self.topics.cuts, 0)
        try:
            answered = self._consumer.get_watermark_offsets(place, timeout=seconds) is not None
        except KafkaException:
            return False
        self.check_partitions(seconds)
        return answered

    def lag(self) -> int:
        """Return how many rating records the broker is known to hold beyond what was given out."""
        behind = 0
        for p, end in enumerate(self.rounds.end_offsets):
            place = TopicPartition(self.topics.ratings, p)
            _, high = self._consumer.get_watermark_offsets(place, cached=True)
            behind += max(0, max(high, self.rounds.received[p]) - end)
        return behind

    def poll(self, seconds: float = 0.02) -> Iterator[Decoded]:
        """Wait up to `seconds` for deliveries and give out all that is in order now."""
        if self._waiting:
            # Not before: what is asked of the broker waits behind a fetch that waits for records,
            # half a second for each partition (measured).
            self._consumer.assign(self._waiting)
            self._waiting = []
        for message in self._consumer.consume(_BATCH, seconds):
            self._take(message)
        while (step := self.rounds.step()) is not None:
            batch = decode_many(step.run, self.intake) if step.run else None
            yield Decoded(batch, step.cut, step.cut_offset, step.forget, step.digest_report)
        self._pause_and_resume()

    def _take(self, message: Message) -> None:
        # A consumed message always has a place; the stubs say that it may not.
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        error = message.error()
        if error is not None:
            self._failed(error, topic, partition, offset)  # type: ignore[arg-type]
        elif topic == self.topics.ratings:
            self.rounds.deliver(partition, offset, message.key(), message.value())  # type: ignore[arg-type]
        elif topic == self.topics.cuts:
            self._entry(message.value(), offset)  # type: ignore[arg-type]
        elif self._catalogue is not None:
            self._catalogue.learn(message.key(), message.value())

    def _entry(self, value: bytes | None, offset: int) -> None:
        self.cuts_at_end = False
        try:
            entry = decode_entry(value)
        except WireError:
            self.cuts_ignored += 1
            return
        match entry:
            case Forget():
                self.rounds.forget(entry, offset)
            case DigestReport():
                self.rounds.digest_report(entry, offset)
            case Cut():
                self._cut(entry, offset)

    def _cut(self, cut: Cut, offset: int) -> None:
        try:
            counts = self.rounds.cut(cut, offset)
        except OrderError as error:
            raise UserError(
                f"{self.topics.cuts}: {error}; it is not the log that this state was made from; "
                f"{_RESTORE}"
            ) from None
        if not counts:
            self.cuts_ignored += 1
        elif self._live and cut.design:
            # Old cuts may be of an earlier design of this deployment; new ones ought not to be.
            self.other_design = "" if cut.design == self.design else cut.design

    def _failed(self, error: KafkaError, topic: str | None, partition: int, offset: int) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            if topic == self.topics.cuts:
                self._at_end_of_cuts()
            elif topic == self.topics.ratings:
                self.rounds.reached(partition, offset)
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise UserError(
                f"{topic} partition {partition}: records that were not read yet are gone "
                f"({error.str()}); the state cannot go on; "
                f"{WAYS_OUT if topic == self.topics.ratings else _RESTORE}"
            )
        elif not error.retriable():
            # What is wrong with a whole broker comes without a place.
            where = f"{topic} partition {partition}" if topic else "the broker"
            raise UserError(f"{where} cannot be read: {error.str()}")

    def _at_end_of_cuts(self) -> None:
        if not self.rounds.found_start:
            raise UserError(
                f"{self.topics.cuts} ends with cut {self.rounds.newest_cut[0]}, the state begins "
                f"after cut {self.rounds.start.cut}: it is not the log that this state was made "
                f"from; {_RESTORE}"
            )
        self.cuts_at_end = self._live = True

    def _pause_and_resume(self) -> None:
        for p in range(self.intake.partitions):
            full = self.rounds.buffered(p) > self._most_buffered
            if full != (p in self._paused):
                place = [TopicPartition(self.topics.ratings, p)]
                (self._consumer.pause if full else self._consumer.resume)(place)
                (self._paused.add if full else self._paused.remove)(p)

    def commit(self, ends: tuple[int, ...]) -> None:
        """Tell the broker up to where the state is durable: a hint for tools that show lag, which
        nothing here reads."""
        places = [TopicPartition(self.topics.ratings, p, end) for p, end in enumerate(ends)]
        self._consumer.commit(offsets=places, asynchronous=True)

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()
