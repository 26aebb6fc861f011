"""Reads the queries in a thread, so that those that need no answer cost the event loop nothing.

    consumer --Query--> malformed   a refusal under the record key, if that is a correlation id
                        expired     nothing: no reader waits past the deadline of its query
                        too many    status busy
                        else        the event loop answers (`answers`)

The workers of a deployment share the partitions of the topic in a consumer group of their own, so
each query is read by one of them. The worker is ready when it is a member of this group: it has its
partitions, or others have all. A partition that the group reads for the first time begins at its
end, and that offset is committed at once: a worker that loses the partition before the next commit
(a frozen process) would otherwise begin at the end of that moment, and the queries before it would
have no outcome.

A Faust agent costs 90 us of the event loop for an expired query and 270 us for a busy reply; this
thread takes 4 us and 39 us (`python -m tests.benchmarks requests`).
"""

from __future__ import annotations

import re
import time
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from stream_app.agents.crash_guard import ThreadService
from stream_app.agents.queries.answers import Answers
from stream_app.agents.runtime import Runtime
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.passing import is_denied
from stream_app.replay.unreadable import readable_from
from stream_app.wire import Query, Status, WireError, decode_message
from stream_app.wire.limits import MAX_SEQ
from stream_app.wire.topics import lacking

log = structlog.get_logger()
_BATCH = 256
_POLL_SECONDS = 0.1
_FINISH_SECONDS = 1.0
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
        self._uncommitted: list[tuple[str, int]] = []  # partitions, since their assignment
        runtime.status.queries = JOINING

    async def on_stop(self) -> None:
        """End the thread; it leaves its group."""
        await super().on_stop()
        await self._answers.finish(_FINISH_SECONDS)

    def _run(self) -> None:
        consumer = self._consumer()
        try:
            while not self.thread.ended:
                self._read(consumer)
                if self._uncommitted:
                    self._commit_new(consumer)
                self._answers.serve()
        finally:
            consumer.close()

    def _consumer(self) -> Consumer:
        static: dict[str, Any] = {}
        if self._runtime.settings.instance is not None:
            static["group_instance_id"] = self._runtime.settings.instance
        consumer = clients.consumer(
            self._connection,
            group=self._group,
            auto_offset_reset="latest",
            enable_auto_commit=True,  # where the group goes on
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
        self._uncommitted += [(place.topic, place.partition) for place in places]
        self._commit_new(consumer)

    def _revoked(self, _: Consumer, places: list[TopicPartition]) -> None:
        gone = {(place.topic, place.partition) for place in places}
        self._uncommitted = [place for place in self._uncommitted if place not in gone]

    def _lost(self, _: Consumer, __: list[TopicPartition]) -> None:
        self._uncommitted.clear()
        self._runtime.status.queries = JOINING

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
            if error is None:
                self._take(message, arrived, now)
            else:
                self._failed(consumer, error, message)

    def _take(self, message: Message, arrived: float, now: float) -> None:
        metrics, answers = self._runtime.metrics, self._answers
        try:
            query = decode_message(Query, message.value())
        except WireError as error:
            metrics.query_refused()
            key = message.key()
            key = key.encode() if isinstance(key, str) else key or b""
            if _CORRELATION_ID.fullmatch(key) and answers.wait_for_room(self._is_ended):
                answers.refuse(key.decode(), Status.REFUSED, f"the query is {error.reason}")
            return
        if query.deadline < now:
            metrics.query_expired()
        elif not answers.offer(query, arrived):
            answers.turn_away(query, self._is_ended)

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
