"""Reads the queries in a thread, so that those that need no answer cost the event loop nothing.

    consumer --Query--> malformed   a refusal under the record key, if that is a correlation id
                        expired     a refusal: its reader may have another clock
                        elsewhere   written again, to the shard of its user
                        too many    status busy
                        else        the event loop answers (`answers`)

The workers of a deployment share the partitions of the topic in a consumer group of their own, so
each query is read by one of them. The worker is ready when it is a member of this group: it has its
partitions, or others have all. A partition that the group reads for the first time begins at its
end, and that offset is committed at once: a worker that loses the partition before the next commit
(a frozen process) would otherwise begin at the end of that moment, and the queries before it would
have no outcome.

Of several shards, the workers of each are a group, and read of their partitions those of the shard.

    user       shard    murmur2(user) mod S       as of its ratings: S divides their partitions
    query      place    murmur2(user) mod N_q     S divides N_q, so place mod S is the same shard
    shard s    reads    the places q with q mod S = s

A client places its query itself (`kafka/broker_answers.py`). An older one places it by correlation
id; the shard that reads it writes it again, as it is, to the place of its user. It comes to the
shard of its user in one step, also where N_q has grown: of a number that S does not divide the rest
is left unused. So no query goes round. One that is not written again is lost; its reader asks
again.

A worker joins when it can answer: kernels compiled, a state restored, catalogue
read. Until then other workers answer, or queries wait in the topic. What the group has
behind it is what has an outcome (`Accepted`). A worker that is stopped, or loses a partition to
another one, reads no more of it, answers what it has read, commits, and leaves the group at once, a
named one too, so nobody waits for the end of its session.

A Faust agent costs 270 us of the event loop for a refusal; this thread takes about 39 us (`python
-m tests.benchmarks requests`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from stream_app.agents.crash_guard import ThreadService
from stream_app.agents.queries.answers import Accepted, Answers, Done
from stream_app.agents.runtime import Runtime
from stream_app.errors import Unanswered, UserError
from stream_app.kafka import clients, passing
from stream_app.kafka.broker_answers import query_partitions
from stream_app.kafka.clients import Connection
from stream_app.kafka.failures.unreadable import readable_from
from stream_app.kafka.passing import is_denied
from stream_app.wire import Query, WireError, decode_message
from stream_app.wire.ids import partition_of
from stream_app.wire.limits import MAX_SEQ
from stream_app.wire.topics import lacking


class ShardQueries:
    """The queries of one of `shards`; without I/O."""

    def __init__(self, shards: int = 1, shard: int = 0) -> None:
        self._shards, self._shard = shards, shard

    def reads(self, partition: int) -> bool:
        """Return whether this shard reads a partition of the queries."""
        return partition % self._shards == self._shard

    def holds(self, user: str) -> bool:
        """Return whether a user, by the pseudonym, belongs to this shard."""
        return partition_of(user.encode(), self._shards) == self._shard

    def place(self, user: str, partitions: int) -> int:
        """Return the partition, of so many, for a query about a user of any shard."""
        return partition_of(user.encode(), partitions // self._shards * self._shards)


class Forwarder:
    """Writes queries again, by a producer of its own; for the thread that reads them."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        queries: ShardQueries,
        fail: Callable[[BaseException], None],
    ) -> None:
        self._producer, self._topic, self._queries, self._fail = producer, topic, queries, fail
        self._partitions = 0  # asked for once: more of them change no user's shard

    def send(self, message: Message, user: str, done: Done) -> bool:
        """Write a query again; False where it is not taken now. `done` once it has its end."""
        try:
            self._partitions = self._partitions or query_partitions(self._producer, self._topic)
            if not self._partitions:
                return False
            clients.send(
                self._producer,
                self._topic,
                key=message.key(),
                value=message.value(),
                partition=self._queries.place(user, self._partitions),
                on_delivery=partial(self._delivered, done),
            )
        except (BufferError, Unanswered):
            return False
        return True

    def serve(self) -> None:
        """Process the delivery reports."""
        self._producer.poll(0)

    def _delivered(self, done: Done, error: KafkaError | None, _: Message) -> None:
        if error is not None and passing.is_denied(error):
            self._fail(passing.unwritten(error, self._topic, "a query of another shard"))
        done()


log = structlog.get_logger()
_BATCH = 256
_POLL_SECONDS = 0.1
_PAUSE_SECONDS = 0.01
_SETTLE_SECONDS = 1.0  # for the answers that are under way
_LEAVE_SECONDS = 0.8
_PLACE_SECONDS = 5.0
JOINING = "joining the group that reads the queries"
_CORRELATION_ID = re.compile(rb"[0-9a-f]{16,64}")
_UNREADABLE = frozenset(
    {KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError.MSG_SIZE_TOO_LARGE}
)
# As for ratings: all batches of a fetch expand at once.
_LIMITS: dict[str, Any] = {**clients.BOUNDED_FETCH, "queued_max_messages_kbytes": 2048}


class QueryReader(ThreadService):
    """The service that runs the thread while the application runs."""

    _JOIN_SECONDS = 2.0

    def __init__(
        self,
        runtime: Runtime,
        connection: Connection,
        group: str,
        answers: Answers,
        session_seconds: float,
    ) -> None:
        super().__init__("queries", runtime.status)
        self._runtime = runtime
        self._connection = connection
        self._group = f"{group}-queries"
        self._answers = answers
        self._session_ms = int(session_seconds * 1000)
        self._accepted = Accepted()
        self._uncommitted: list[tuple[str, int]] = []  # partitions, since their assignment
        spec = runtime.replica.spec
        self._shard = ShardQueries(spec.shards, spec.shard)
        self._forwarder = self._new_forwarder() if spec.shards > 1 else None
        runtime.status.queries = JOINING

    def _new_forwarder(self) -> Forwarder:
        producer = clients.producer(self._connection, linger_ms=0, message_timeout_ms=10_000)
        fail = self._runtime.status.fail_from_thread
        return Forwarder(producer, self._runtime.topics.queries, self._shard, fail)

    async def hand_over(self) -> None:
        """Read no more, answer what was read, and leave the group."""
        await self.on_stop()

    def _run(self) -> None:
        while waits := self._waits_for():
            self._runtime.status.queries = waits
            if self.thread.wait(_POLL_SECONDS):
                return
        self._runtime.status.queries = JOINING
        consumer = self._consumer()
        try:
            while not self.thread.ended:
                self._read(consumer)
                if self._uncommitted:
                    self._commit_new(consumer)
                self._serve()
                self._store(consumer)
            self._leave(consumer)
        finally:
            consumer.close()

    def _serve(self, seconds: float = 0.0) -> None:
        """Process what the broker says of replies, for so long at most, and of queries."""
        self._answers.serve(seconds)
        if self._forwarder is not None:
            self._forwarder.serve()

    def _waits_for(self) -> str:
        """Return what this worker needs before it can answer, empty when it has all."""
        if self._runtime.status.start_end_offsets is None:
            return "restoring the state"
        return "" if self._runtime.catalogue.read else "reading the catalogue"

    def _consumer(self) -> Consumer:
        static: dict[str, Any] = {}
        if self._runtime.settings.instance is not None:
            static["group_instance_id"] = self._runtime.settings.instance
        consumer = clients.consumer(
            self._connection,
            group=self._group,
            auto_offset_reset="latest",
            enable_auto_commit=True,  # of what is stored, also where a partition is given up
            enable_auto_offset_store=False,
            auto_commit_interval_ms=1000,
            partition_assignment_strategy="cooperative-sticky",
            session_timeout_ms=self._session_ms,
            heartbeat_interval_ms=self._session_ms // 4,
            fetch_wait_max_ms=100,
            **_LIMITS,
            **static,
        )
        consumer.subscribe(
            [self._runtime.topics.queries],
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._lost,
        )
        return consumer

    def _assigned(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        own = [place for place in places if self._shard.reads(place.partition)]
        if len(own) < len(places):
            consumer.incremental_assign(places)
            consumer.pause([place for place in places if place not in own])
        for place in own:
            self._accepted.begin(place.partition)
        self._uncommitted += [(place.topic, place.partition) for place in own]
        self._commit_new(consumer)

    def _revoked(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        gone = [place.partition for place in places]
        self._uncommitted = [place for place in self._uncommitted if place[1] not in gone]
        self._settle(consumer, gone)  # what is stored is committed behind this call
        for partition in gone:
            self._accepted.end(partition)

    def _lost(self, _: Consumer, places: list[TopicPartition]) -> None:
        self._uncommitted.clear()
        for place in places:
            self._accepted.end(place.partition)
        self._runtime.status.queries = JOINING

    def _settle(self, consumer: Consumer, partitions: Collection[int]) -> None:
        """Wait, for a second at most, until every query of these partitions has its outcome."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        while self._accepted.waiting(partitions) and time.monotonic() < deadline:
            self._serve(_PAUSE_SECONDS)
        if left := self._accepted.waiting(partitions):
            log.warning("queries.left", queries=left)  # the next owner reads them again
        self._store(consumer)

    def _store(self, consumer: Consumer) -> None:
        """Let the next commit be behind what has an outcome."""
        topic = self._runtime.topics.queries
        places = [TopicPartition(topic, *place) for place in self._accepted.places().items()]
        if places:
            with suppress(KafkaException):  # taken away meanwhile: another worker reads them again
                consumer.store_offsets(offsets=places)

    def _leave(self, consumer: Consumer) -> None:
        """Answer what was read, commit, and leave the group. A named member that only closes keeps
        its partitions until the end of its session."""
        self._settle(consumer, self._accepted.partitions)
        deadline = time.monotonic() + _LEAVE_SECONDS
        while not self._committed(consumer) and time.monotonic() < deadline:
            consumer.poll(_PAUSE_SECONDS)  # what it yields is read by the next owner
        with suppress(KafkaException):  # another process has this name
            consumer.unsubscribe()
        while consumer.memberid() and time.monotonic() < deadline:
            consumer.poll(_PAUSE_SECONDS)

    def _committed(self, consumer: Consumer) -> bool:
        """Commit what is stored; False where a rebalance under way refuses it."""
        try:
            places = consumer.commit(asynchronous=False) or []
        except KafkaException as reason:
            return bool(reason.args[0].code() == KafkaError._NO_OFFSET)
        return all(place.error is None for place in places)

    def _commit_new(self, consumer: Consumer) -> None:
        """Commit the end of each partition of which the group has no offset, at first before it is
        read; what the broker does not answer is asked again."""
        wanted = [TopicPartition(*place) for place in self._uncommitted]
        try:
            committed = consumer.committed(wanted, timeout=_PLACE_SECONDS) if wanted else []
            if failed := next((place.error for place in committed if place.error), None):
                raise KafkaException(failed)
            new = [place for place in committed if place.offset < 0]
            for place in new:
                place.offset = clients.offsets(consumer, place, _PLACE_SECONDS)[1]
            if new:
                consumer.commit(offsets=new, asynchronous=False)
        except (KafkaException, UserError) as reason:
            self._runtime.status.queries = f"{JOINING}: {reason}"
            return
        self._uncommitted.clear()
        self._runtime.status.queries = ""

    def _read(self, consumer: Consumer) -> None:
        """Wait for a query, and take all that have arrived by then."""
        first = consumer.poll(_POLL_SECONDS)
        if first is None:
            return
        arrived, now = time.perf_counter(), time.time() * 1000
        for message in (first, *consumer.consume(_BATCH, 0)):
            error = message.error()
            if self.thread.ended:
                return
            if error is None:
                if self._shard.reads(message.partition() or 0):
                    self._take(message, arrived, now)
            else:
                self._failed(consumer, error, message)

    def _take(self, message: Message, arrived: float, now: float) -> None:
        metrics, answers = self._runtime.metrics, self._answers
        done = self._accepted.read(message.partition() or 0, message.offset() or 0)
        try:
            query = decode_message(Query, message.value())
        except WireError as error:
            metrics.query_refused()
            key = message.key()
            key = key.encode() if isinstance(key, str) else key or b""
            if not _CORRELATION_ID.fullmatch(key):
                done()
            elif answers.wait_for_room(self._is_ended):
                answers.refuse(key.decode(), f"the query is {error.reason}", done)
            return
        if query.deadline >= now and self._taken(message, query, arrived, done):
            return
        if answers.wait_for_room(self._is_ended):
            answers.turn_away(query, done)

    def _taken(self, message: Message, query: Query, arrived: float, done: Done) -> bool:
        """Let a query be answered, here or by the shard of its user; False where too many wait."""
        forwarder, user = self._forwarder, query.user
        if forwarder is None or user is None or self._shard.holds(user):
            return self._answers.offer(query, arrived, done)
        sent = forwarder.send(message, user, done)
        if sent:
            self._runtime.metrics.query_forwarded()
        return sent

    def _is_ended(self) -> bool:
        return self.thread.ended

    def _failed(self, consumer: Consumer, error: KafkaError, message: Message) -> None:
        topic = self._runtime.topics.queries
        if _is_unreadable(error):
            self._skip(consumer, message)
        elif is_denied(error):
            of_group = error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
            raise UserError(
                lacking(f"group {self._group}" if of_group else f"topic {topic}", "READ")
            )
        elif error.fatal():
            # Another process has this worker's name: its membership ends this process (exit 75).
            log.warning("queries.fenced", group=self._group, reason=error.str())
            self._runtime.status.queries = f"the queries are read no more: {error.str()}"
            self.thread.end()
        elif self._runtime.status.queries:
            self._runtime.status.queries = f"{JOINING}: {error.str()}"

    def _skip(self, consumer: Consumer, message: Message) -> None:
        """Go on after a batch that no reader can decompress, or that is damaged: a reader that
        begins anywhere in it gets the same error, so its end is searched for."""
        partition, offset = message.partition(), message.offset()
        if partition is None or offset is None or offset < 0:
            return
        self._runtime.metrics.query_refused()
        place = TopicPartition(self._runtime.topics.queries, partition, offset)
        end = readable_from(self._connection, self._group, place, MAX_SEQ, _is_unreadable)
        place.offset = max(end, offset + 1)
        try:
            consumer.seek(place)
        except KafkaException:
            return  # the partition was taken away meanwhile


def _is_unreadable(error: KafkaError) -> bool:
    return error.code() in _UNREADABLE
