"""The group that hands out the shards: its topic has a partition for each, and is not read here.

    given     start the process of the shard
    revoked   stop it and wait, and only then let the shard go: no two workers have it
    lost      go on, and when the group answers again, stop what another worker was given

A worker of which the group did not hear for a session has lost its shards: it was frozen, or the
broker was away, and then nobody else was given them either. Two processes of one shard do no harm
meanwhile: they are replicas, as two workers of a deployment of one shard are.
"""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, TopicPartition

from stream_app.agents.shards.children import Children
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.background_thread import BackgroundThread
from stream_app.kafka.clients import Connection
from stream_app.kafka.passing import is_denied
from stream_app.wire.topics import lacking

SESSION_SECONDS = 6.0
_POLL_SECONDS = 0.2
_LEAVE_SECONDS = 1.5


class ShardGroup:
    """This worker's membership; `changed` is called with the shards that it holds, at first when it
    is a member."""

    def __init__(
        self,
        connection: Connection,
        group: str,
        topic: str,
        children: Children,
        changed: Callable[[list[int]], None],
        session_seconds: float = SESSION_SECONDS,
    ) -> None:
        self._group, self._topic, self._children = group, topic, children
        self._changed = changed
        self._lost_shards = set[int]()
        self._consumer = clients.consumer(
            connection,
            group=group,
            auto_offset_reset="latest",
            partition_assignment_strategy="cooperative-sticky",
            session_timeout_ms=int(session_seconds * 1000),
            heartbeat_interval_ms=int(session_seconds * 250),
        )

    def run(self, is_ended: Callable[[], bool]) -> int:
        """Hold shards until `is_ended`, and return 0, or until a process is refused, and return its
        exit code; no process is left. Raises UserError without the rights."""
        self._consumer.subscribe(
            [self._topic], on_assign=self._given, on_revoke=self._revoked, on_lost=self._lost
        )
        try:
            while not is_ended():
                self._poll()
                code = self._children.look()
                if code is not None:
                    return code
            return 0
        finally:
            self._children.stop(self._children.shards)
            leaving = BackgroundThread("leave", self._consumer.close)
            leaving.start()
            leaving.join(_LEAVE_SECONDS)

    def _poll(self) -> None:
        message = self._consumer.poll(_POLL_SECONDS)
        error = message.error() if message is not None else None
        if error is not None and is_denied(error):
            of_group = error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
            what = f"group {self._group}" if of_group else f"topic {self._topic}"
            raise UserError(lacking(what, "READ"))

    def _given(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        consumer.incremental_assign(places)
        consumer.pause(places)
        given = {place.partition for place in places}
        self._children.start(given)
        self._children.stop(self._lost_shards - given)
        self._lost_shards.clear()
        self._changed(self._children.shards)

    def _revoked(self, _: Consumer, places: list[TopicPartition]) -> None:
        self._children.stop([place.partition for place in places])
        self._changed(self._children.shards)

    def _lost(self, _: Consumer, places: list[TopicPartition]) -> None:
        self._lost_shards |= {place.partition for place in places}
