"""Following the log: a consumer that reads the ratings and the cuts and gives them out in canonical
order.

One consumer is assigned to every rating partition and to the cut log at explicit offsets; it never
joins a group and never commits, so nothing that happens to a group can make it skip or repeat. A
partition whose buffer holds more than six rounds is paused until it has drained: with fewer, the
pauses cost a factor of three (measured).

The worker's reader thread, the offline digest and the demo's own check use the same follower.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from stream_app import clients
from stream_app.catalogue import Catalogue
from stream_app.errors import Refusal
from stream_app.log.rounds import Rounds
from stream_app.wire import Batch, Cut, Intake, Topics, WireError, decode_many, decode_message

_BATCH = 256
_ROUNDS_AHEAD = 6


@dataclass(frozen=True, eq=False)
class Decoded:
    """The next piece of the log: a decoded run, or the cut that ends its round."""

    batch: Batch | None
    cut: Cut | None


class Follower:
    """Reads the log of one deployment from its beginning."""

    def __init__(
        self,
        bootstrap: str,
        extra: Mapping[str, str],
        topics: Topics,
        intake: Intake,
        round_records: int = 2000,
        catalogue: Catalogue | None = None,
        design: str = "",
    ) -> None:
        self.topics = topics
        self.intake = intake
        self.rounds = Rounds(intake.partitions)
        self.cuts_ignored = 0
        self.cuts_at_end = False
        self.design = design
        self.other_design = ""
        self._live = False
        self._most_buffered = _ROUNDS_AHEAD * round_records
        self._paused: set[int] = set()
        self._catalogue = catalogue
        self._consumer: Consumer = clients.consumer(
            bootstrap,
            extra,
            group=f"{topics.prefix}-follower",
            partition_eof=True,
            auto_offset_reset="error",
            queued_max_messages_kbytes=16384,
        )
        places = [(topics.ratings, p) for p in range(intake.partitions)] + [(topics.cuts, 0)]
        if catalogue is not None:
            places.append((topics.items, 0))
        self._consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in places])

    def log_ends(self, seconds: float = 10.0) -> tuple[tuple[int, ...], int]:
        """Return the end offset of each rating partition and of the cut log, asked of the
        broker."""
        ratings = tuple(
            self._end(TopicPartition(self.topics.ratings, p), seconds)
            for p in range(self.intake.partitions)
        )
        return ratings, self._end(TopicPartition(self.topics.cuts, 0), seconds)

    def _end(self, place: TopicPartition, seconds: float) -> int:
        low, high = clients.offsets(self._consumer, place, seconds)
        if low > 0 and place.topic in (self.topics.ratings, self.topics.cuts):
            raise Refusal(
                f"{place.topic} partition {place.partition} begins at offset {low}: records "
                "before it are gone and the state cannot be rebuilt; restore the topic or start a "
                "new deployment (--prefix)"
            )
        return high

    def answers(self, seconds: float = 1.0) -> bool:
        """Return whether the broker answers a question now."""
        place = TopicPartition(self.topics.cuts, 0)
        try:
            return self._consumer.get_watermark_offsets(place, timeout=seconds) is not None
        except KafkaException:
            return False

    def lag(self) -> int:
        """Return how many rating records the broker is known to hold beyond what was given out."""
        behind = 0
        for p, end in enumerate(self.rounds.ends):
            place = TopicPartition(self.topics.ratings, p)
            _, high = self._consumer.get_watermark_offsets(place, cached=True)
            behind += max(0, max(high, self.rounds.received[p]) - end)
        return behind

    def poll(self, seconds: float = 0.02) -> Iterator[Decoded]:
        """Wait up to `seconds` for deliveries and give out all that is in order now."""
        for message in self._consumer.consume(_BATCH, seconds):
            self._take(message)
        while (step := self.rounds.step()) is not None:
            yield Decoded(decode_many(step.run, self.intake) if step.run else None, step.cut)
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
            self._cut(message.value())
        elif self._catalogue is not None:
            self._catalogue.learn(message.key(), message.value())

    def _cut(self, value: bytes | None) -> None:
        self.cuts_at_end = False
        try:
            cut = decode_message(Cut, value)
        except WireError:
            self.cuts_ignored += 1
            return
        if not self.rounds.cut(cut):
            self.cuts_ignored += 1
        elif self._live and cut.design:
            # Old cuts may be of an earlier design of this deployment; new ones ought not to be.
            self.other_design = "" if cut.design == self.design else cut.design

    def _failed(self, error: KafkaError, topic: str, partition: int, offset: int) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            if topic == self.topics.cuts:
                self.cuts_at_end = self._live = True
            elif topic == self.topics.ratings:
                self.rounds.reached(partition, offset)
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise Refusal(
                f"{topic} partition {partition}: records that were not read yet are gone "
                f"({error.str()}); the state cannot go on; restore the topic or start a new "
                "deployment (--prefix)"
            )
        elif not error.retriable():
            raise Refusal(f"{topic} partition {partition}: {error.str()}")

    def _pause_and_resume(self) -> None:
        for p in range(self.intake.partitions):
            full = self.rounds.buffered(p) > self._most_buffered
            if full != (p in self._paused):
                place = [TopicPartition(self.topics.ratings, p)]
                (self._consumer.pause if full else self._consumer.resume)(place)
                (self._paused.add if full else self._paused.remove)(p)

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()
