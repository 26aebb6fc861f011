"""Follows the log: reads the ratings and the cuts and yields them in canonical order.

One consumer is assigned to every rating partition and to the cut log at explicit offsets, those of
a checkpoint or 0; it joins no group and reads no committed offset, so a group event cannot make it
skip or repeat a record. A log that no longer holds the start offset, or that has another number of
partitions, is refused. A partition whose buffer holds more than six rounds is paused until it has
drained: with fewer rounds, the pauses cost a factor of three (measured).

The worker's reader thread, the offline replay and the demo's own check use this class.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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
from stream_app.replay.signature_check import SignatureCheck
from stream_app.replay.unreadable import is_unreadable, readable_from
from stream_app.serving.catalogue import Catalogue
from stream_app.wire import (
    UNREADABLE,
    Batch,
    Contract,
    Cut,
    DigestReport,
    Forget,
    WireError,
    decode_entry,
    decode_many,
    held,
)
from stream_app.wire.limits import CONTRACT

WAYS_OUT = (
    "restore the topic, continue without them (murmurec worker --accept-gap, which records it), or "
    "start a new deployment (--prefix)"
)
_RESTORE = "restore the topic or start a new deployment (--prefix)"
_BATCH = 256
_ROUNDS_AHEAD = 6
# Of all partitions together, and of one of very many.
_BUFFER_BYTES = 128 << 20
_LEAST_BYTES = 1 << 20
_ABSENT_CHECKS = 3


@dataclass(frozen=True, eq=False)
class Decoded:
    """The next piece of the log: a decoded run, the cut that ends its round, a device to forget
    or a version of the event format before the next run, or a digest report; `cut_offset` is the
    offset after the entry in the cut log."""

    batch: Batch | None
    cut: Cut | None
    cut_offset: int = 0
    forget: Forget | None = None
    digest_report: DigestReport | None = None
    contract: Contract | None = None


def gone_before(connection: Connection, topic: str, ends: Sequence[int]) -> str:
    """Return a sentence naming the first partition that no longer holds the records from its
    offset in `ends` on; empty if all do."""
    consumer = clients.consumer(connection)
    try:
        for partition, end in enumerate(ends):
            place = TopicPartition(topic, partition)
            if missing := _missing(place, clients.offsets(consumer, place)[0], end):
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


class Follower:
    """Reads the log of one deployment after `start`, or from its beginning."""

    def __init__(
        self,
        deployment: Deployment,
        start: Start | None = None,
        round_records: int = 2000,
        catalogue: Catalogue | None = None,
        newest_contract: int = CONTRACT,
    ) -> None:
        self.topics = topics = deployment.topics
        self._check = SignatureCheck()
        self.intake = deployment.intake_with(self._check)
        self._newest_contract = newest_contract
        self._set_contract(start.contract if start else 1)
        self.rounds = Rounds(deployment.partitions, start)
        self.cuts_ignored = self.unsealed = 0
        self._seal = deployment.seal
        self.cuts_at_end = False
        self.design = deployment.spec.digest
        self.other_design = ""
        self._live = False
        self._absent = 0
        self._most_buffered = _ROUNDS_AHEAD * round_records
        self._most_bytes = max(_LEAST_BYTES, _BUFFER_BYTES // deployment.partitions)
        self._paused: set[int] = set()
        self._connection = deployment.connection
        self._catalogue = catalogue
        self._consumer: Consumer = clients.consumer(
            deployment.connection,
            group=self._group,
            partition_eof=True,
            auto_offset_reset="error",
            queued_max_messages_kbytes=16384,
            **clients.BOUNDED_FETCH,
            # An empty fetch reports the end of the cut log: the default of 500 ms
            # would be lost at every start.
            fetch_wait_max_ms=100,
        )
        # Explicit offsets, never OFFSET_BEGINNING, which would skip deleted records unnoticed.
        start = self.rounds.start
        places = [TopicPartition(topics.ratings, p, end) for p, end in enumerate(start.end_offsets)]
        places.append(TopicPartition(topics.cuts, 0, start.cut_offset))
        if catalogue is not None:
            places.append(TopicPartition(topics.items, 0, OFFSET_BEGINNING))
        self._waiting = places

    @property
    def _group(self) -> str:
        return f"{self.topics.prefix}-follower"

    def log_end_offsets(self, seconds: float = 10.0) -> tuple[tuple[int, ...], int]:
        """Return the end offset of each rating partition and of the cut log, as the broker reports
        them now; refuses a log that does not hold the records from the start on."""
        self.check_partitions(seconds)
        start = self.rounds.start
        ratings = tuple(
            self._end(TopicPartition(self.topics.ratings, p), start.end_offsets[p], seconds)
            for p in range(self.intake.partitions)
        )
        return ratings, self._end(TopicPartition(self.topics.cuts, 0), start.cut_offset, seconds)

    def _end(self, place: TopicPartition, first: int, seconds: float) -> int:
        low, high = clients.offsets(self._consumer, place, seconds)
        if missing := _missing(place, low, first):
            fix = WAYS_OUT if place.topic == self.topics.ratings else _RESTORE
            raise UserError(f"{missing}; {fix}")
        if high < first:
            raise UserError(
                f"{place.topic} partition {place.partition} ends at offset {high}, the state has "
                f"read it up to offset {first}: learned records were deleted, or the topic "
                f"was recreated; {_RESTORE}"
            )
        return high

    def check_partitions(self, seconds: float = 10.0) -> None:
        """Refuse a rating topic with added partitions, which would never be read, and one that is
        absent in three checks in a row: a broker that has just started may not list it yet."""
        try:
            listed = self._consumer.list_topics(self.topics.ratings, timeout=seconds).topics
        except KafkaException:
            return  # `answers` reports a broker that does not answer
        found = len(listed[self.topics.ratings].partitions)
        self._absent = 0 if found else self._absent + 1
        if self._absent >= _ABSENT_CHECKS:
            raise UserError(f"topic {self.topics.ratings} does not exist: {_RESTORE}")
        if found > self.intake.partitions:
            raise UserError(
                f"{self.topics.ratings} has {found} partitions, not {self.intake.partitions}: the "
                "count cannot change, since a device's partition depends on it; start a new "
                "deployment (--prefix)"
            )

    def answers(self, seconds: float = 1.0) -> bool:
        """Return whether the broker answers a request now; refuses added partitions."""
        place = TopicPartition(self.topics.cuts, 0)
        try:
            answered = self._consumer.get_watermark_offsets(place, timeout=seconds) is not None
        except KafkaException:
            return False
        self.check_partitions(seconds)
        return answered

    def lag(self) -> int:
        """Return the number of rating records at the broker after those already yielded."""
        behind = 0
        for p, end in enumerate(self.rounds.end_offsets):
            place = TopicPartition(self.topics.ratings, p)
            _, high = self._consumer.get_watermark_offsets(place, cached=True)
            behind += max(0, max(high, self.rounds.received[p]) - end)
        return behind

    def poll(self, seconds: float = 0.02) -> Iterator[Decoded]:
        """Wait up to `seconds` for records and yield every piece that is complete in order."""
        if self._waiting:
            # Assigned late: a request waits behind a blocked fetch, half a second per partition.
            self._consumer.assign(self._waiting)
            self._waiting = []
        for message in self._consumer.consume(_BATCH, seconds):
            self._take(message)
        while (step := self.rounds.step()) is not None:
            if step.contract is not None:
                self._set_contract(step.contract.version)
            batch = decode_many(step.run, self.intake) if step.run else None
            yield Decoded(
                batch, step.cut, step.cut_offset, step.forget, step.digest_report, step.contract
            )
        self._pause_and_resume()

    def _set_contract(self, version: int) -> None:
        """Decode what follows by this version of the event format; refuses an unknown one."""
        if version > self._newest_contract:
            raise UserError(
                f"{self.topics.cuts} sets version {version} of the event format, and this release "
                f"of murmurec knows versions up to {self._newest_contract}: install a newer one"
            )
        self.intake = replace(self.intake, contract=version)

    def _take(self, message: Message) -> None:
        # A consumed message always has topic and offset; the type stubs make them optional.
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        error = message.error()
        if error is not None:
            self._failed(error, topic, partition, offset)  # type: ignore[arg-type]
        elif topic == self.topics.ratings:
            key, value = held(message.key(), message.value())
            self.rounds.deliver(partition, offset, key, value)  # type: ignore[arg-type]
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
            case Contract():
                self.rounds.set_contract(entry, offset)
            case DigestReport() if not entry.is_genuine(self._seal):
                self.unsealed += 1
            case DigestReport():
                self.rounds.digest_report(entry, offset)
            case Cut():
                self._cut(entry, offset)

    def _cut(self, cut: Cut, offset: int) -> None:
        try:
            counts = self.rounds.cut(cut, offset)
        except OrderError as error:
            raise UserError(
                f"{self.topics.cuts}: {error}; this state was not computed from this log; "
                f"{_RESTORE}"
            ) from None
        if not counts:
            self.cuts_ignored += 1
        elif self._live and cut.design:
            # Old cuts may carry an earlier design of this deployment; new cuts should not.
            self.other_design = "" if cut.design == self.design else cut.design

    def _failed(self, error: KafkaError, topic: str | None, partition: int, offset: int) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            if topic == self.topics.cuts:
                self._at_end_of_cuts()
            elif topic == self.topics.ratings:
                self.rounds.reached(partition, offset)
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise UserError(
                f"{topic} partition {partition}: records that were not read yet were deleted "
                f"({error.str()}); the state cannot continue; "
                f"{WAYS_OUT if topic == self.topics.ratings else _RESTORE}"
            )
        elif topic in (self.topics.ratings, self.topics.items) and is_unreadable(error):
            self._pass_over(TopicPartition(topic, partition, offset))
        elif not error.retriable():
            # An error of the broker connection has no topic.
            source = f"{topic} partition {partition}" if topic else "the broker"
            raise UserError(f"{source} cannot be read: {error.str()}")

    def _pass_over(self, place: TopicPartition) -> None:
        """Deliver the records of unreadable batches as such, and go on after them.

        `place` is the beginning of a batch; the first records of it may be behind us.
        """
        ratings, partition = place.topic == self.topics.ratings, place.partition
        if ratings:
            place.offset = max(place.offset, self.rounds.received[partition])
        end = readable_from(self._connection, self._group, place)
        if ratings:
            for offset in range(place.offset, end):
                self.rounds.deliver(partition, offset, None, UNREADABLE)
        self._consumer.seek(TopicPartition(place.topic, partition, end))

    def _at_end_of_cuts(self) -> None:
        if not self.rounds.found_start:
            raise UserError(
                f"{self.topics.cuts} ends with cut {self.rounds.newest_cut[0]}, the state begins "
                f"after cut {self.rounds.start.cut}: this state was not computed from this log; "
                f"{_RESTORE}"
            )
        self.cuts_at_end = self._live = True

    def _pause_and_resume(self) -> None:
        for p in range(self.intake.partitions):
            full = (
                self.rounds.buffered(p) > self._most_buffered
                or self.rounds.buffered_bytes(p) > self._most_bytes
            )
            if full != (p in self._paused):
                place = [TopicPartition(self.topics.ratings, p)]
                (self._consumer.pause if full else self._consumer.resume)(place)
                (self._paused.add if full else self._paused.remove)(p)

    def commit(self, ends: tuple[int, ...]) -> None:
        """Commit the offsets up to which the state is durable: for tools that show lag; the
        application never reads them."""
        places = [TopicPartition(self.topics.ratings, p, end) for p, end in enumerate(ends)]
        self._consumer.commit(offsets=places, asynchronous=True)

    def close(self) -> None:
        """Close the consumer and end the threads that check signatures."""
        self._consumer.close()
        self._check.close()
