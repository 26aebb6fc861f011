"""Which queries a shard answers, and how one about a user of another shard comes to its own.

    user       shard    murmur2(user) mod S       as of its ratings: S divides their partitions
    query      place    murmur2(user) mod N_q     S divides N_q, so place mod S is the same shard
    shard s    reads    the places q with q mod S = s

A client places its query itself (`kafka/broker_answers.py`). An older one places it by correlation
id; the shard that reads it writes it again, as it is, to the place of its user. It comes to the
shard of its user in one step, also where N_q has grown: of a number that S does not divide the rest
is left unused. So no query goes round. One that is not written again is lost; its reader asks
again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from confluent_kafka import KafkaError, Message, Producer

from stream_app.agents.queries.accepted import Done
from stream_app.errors import Unanswered
from stream_app.kafka import clients, passing
from stream_app.kafka.broker_answers import query_partitions
from stream_app.wire.ids import partition_of


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
