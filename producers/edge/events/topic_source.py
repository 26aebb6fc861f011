"""Events from a topic that the site already has, each record exactly once in the store.

    Kafka's group   shares the partitions among the edges of a site
    the store       holds how far each partition was read, moved in the transaction of its rows

A partition is read from where the store says. Its row moves from the offset that this edge began at
to the next one, or the transaction is undone: of two edges that both believe to own a partition one
moves it, and the other reads the store again. What is committed to Kafka is a copy, by which usual
tools show the lag. A record that is no event is counted by its reason, and blocks nothing. While
the store refuses, nothing moves, and the records are read again.

A topic that was made anew begins at lower offsets; its records are taken, as the tokens of events
decide what is new.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from sqlalchemy import Connection as StoreConnection
from sqlalchemy import select, update

from producers.edge.events.event import Event
from producers.edge.events.event_decoding import event_of
from producers.edge.events.feedback_rows import FeedbackRows
from producers.edge.events.strict_json import Malformed
from producers.edge.events.topic_mapping import TopicMapping
from producers.edge.site_terms import SiteTerms
from producers.edge.store.database import Database
from producers.edge.store.store_tables import offsets
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_follower import TopicFollower

_BATCH = 1_000
_POLL_SECONDS = 0.5
_PAUSE_SECONDS = 1.0


class _Moved(Exception):
    """Another edge has moved a partition."""


class TopicSource:
    """Reads one topic; `start` makes its thread, and `stop` ends it.

    `taken`, `repeated`, `refused` (by reason): records of this process. `problem`: why it waits.
    `begin`: "earliest" or "latest", where the store knows nothing of a partition. `properties` are
    those of the consumer. Raises UserError for a topic that is absent or not readable.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        group: str,
        mapping: TopicMapping,
        database: Database,
        terms: SiteTerms,
        begin: str = "earliest",
        **properties: Any,
    ) -> None:
        self.topic, self._mapping, self._begin = topic, mapping, begin
        self._database, self._types = database, terms.feedback
        self._rows = FeedbackRows(database, terms.feedback, signed=terms.signed)
        self.taken = self.repeated = 0
        self.refused: Counter[str] = Counter()
        self.problem: str | None = None
        self._owned: list[int] = []
        self._next: dict[int, int] = {}
        self._unsure = False  # where to read on; the store knows
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._follower = TopicFollower(
            connection, group, **{"auto_offset_reset": "earliest", **properties}
        )
        try:
            if not clients.exists(self._follower.consumer, topic):
                raise UserError(f"topic {topic}: Kafka has none of that name; correct --from-topic")
            self._follower.consumer.subscribe(
                [topic], on_assign=self._assigned, on_revoke=self._revoked
            )
        except BaseException:
            self._follower.close()
            raise

    @property
    def positions(self) -> Mapping[int, int]:
        """The next offset of each partition that this edge reads, as stored."""
        return dict(self._next)

    def start(self) -> None:
        """Read in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="edge-topic", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after the present batch, and leave the group."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._follower.close()

    def step(self, seconds: float = _POLL_SECONDS) -> int:
        """Store what has arrived, waiting `seconds` for it; return how many records it was.

        Raises UserError where Kafka or the store refuses: the next step begins at the stored place.
        """
        if self._unsure:
            self._begin_at_stored()
        messages = list(self._follower.take(seconds, _BATCH))
        if self._follower.unreadable:
            self.refused["unreadable"] = self._follower.unreadable
        if not messages or self._unsure:  # it was assigned anew meanwhile
            return 0
        self._unsure = True
        with suppress(_Moved):
            self._store(messages)
            self._unsure = False
        return len(messages)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.step()
                self.problem = None
            except UserError as error:
                self.problem = str(error)
                self._stopping.wait(_PAUSE_SECONDS)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.assign([])  # from where, the store says: at the next step
        self._owned = [each.partition for each in partitions]
        self._unsure = True

    def _revoked(self, consumer: Consumer, _: list[TopicPartition]) -> None:
        consumer.unassign()
        self._follower.positions.clear()  # what has arrived is no longer this edge's
        self._owned, self._next, self._unsure = [], {}, False

    def _begin_at_stored(self) -> None:
        stored = self._stored()
        missing = [each for each in self._owned if each not in stored]
        if missing:
            rows = [
                {"topic": self.topic, "partition": each, "next": self._first(each)}
                for each in missing
            ]
            with self._database.writing() as connection:
                self._database.add(connection, offsets, rows)
            stored = self._stored()
        self._next = {each: stored[each] for each in self._owned}
        places = [TopicPartition(self.topic, each, at) for each, at in self._next.items()]
        self._follower.begin(*places)
        self._unsure = False

    def _stored(self) -> dict[int, int]:
        wanted = select(offsets.c.partition, offsets.c.next).where(offsets.c.topic == self.topic)
        with self._database.reading() as connection:
            return {row.partition: row.next for row in connection.execute(wanted)}

    def _first(self, partition: int) -> int:
        place = TopicPartition(self.topic, partition)
        low, end = clients.offsets(self._follower.consumer, place)
        return end if self._begin == "latest" else low

    def _store(self, messages: Sequence[Message]) -> None:
        events, refused = list[Event](), Counter[str]()
        reached = dict[int, int]()
        for message in messages:
            reached[message.partition() or 0] = (message.offset() or 0) + 1
            found = self._event(message)
            if isinstance(found, Event):
                events.append(found)
            else:
                refused[found] += 1
        new = self._rows.write(events, lambda connection: self._advance(connection, reached))
        self._next.update(reached)
        self.taken += sum(new)
        self.repeated += len(new) - sum(new)
        self.refused += refused
        copied = [TopicPartition(self.topic, each, at) for each, at in reached.items()]
        with suppress(KafkaException):
            self._follower.consumer.commit(offsets=copied, asynchronous=True)

    def _event(self, message: Message) -> Event | str:
        """Return the event of a record, or why it is none."""
        try:
            row = self._mapping.row(message.value())
        except Malformed as error:
            return error.reason
        if row.get("time") is None:
            row["time"] = message.timestamp()[1]
        found = event_of(row, 1, int(time.time() * 1000), self._types)
        return found if isinstance(found, Event) else found.reason

    def _advance(self, connection: StoreConnection, reached: Mapping[int, int]) -> None:
        for partition, at in sorted(reached.items()):
            own = (offsets.c.topic == self.topic, offsets.c.partition == partition)
            moved = update(offsets).where(*own, offsets.c.next == self._next[partition])
            if connection.execute(moved.values(next=at)).rowcount != 1:
                raise _Moved
