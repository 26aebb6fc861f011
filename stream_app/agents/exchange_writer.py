"""Publishes what this shard has learned of items, for the other shards.

At a cut the owner of the shard's clock reads the change since the last one that was merged, and
writes it to the exchange. Nothing of the state changes by that: the change is merged when an entry
of the cut log says so, here as in every other shard. One is under way at a time; what a crash, a
broker or another owner loses is part of the next one.
"""

from __future__ import annotations

import time

import structlog
from confluent_kafka import KafkaError, Message, Producer

from stream_app.agents.runtime import Runtime
from stream_app.kafka import clients
from stream_app.kafka.passing import passes, unwritten
from stream_app.models.factorization.joining import Meetings
from stream_app.wire.exchange import encode_change

log = structlog.get_logger()
_SECONDS = 10.0  # between two changes of a shard that learns few ratings
_PATIENCE_SECONDS = 30.0


class ExchangeWriter:
    """Writes the changes of one shard; on the event loop."""

    def __init__(self, runtime: Runtime, producer: Producer) -> None:
        self._runtime, self._producer = runtime, producer
        self._meetings = Meetings()
        self._sent, self._sent_time = 0, float("-inf")
        self._failed = False

    def at_cut(self) -> None:
        """Write a change if one is due; the state is that of a cut."""
        self._producer.poll(0)
        runtime, spec = self._runtime, self._runtime.replica.spec
        shared, now = runtime.replica.shared, time.monotonic()
        if shared is None or not runtime.status.clock_owned or runtime.state_reason():
            return
        number = shared.numbers[spec.shard] + 1
        waits = self._sent >= number and not self._failed
        if waits and now - self._sent_time < _PATIENCE_SECONDS:
            return
        due = self._meetings.due(shared.unshared, shared.ratings, spec.shards)
        late = now - self._sent_time >= _SECONDS
        rests = not shared.unshared and shared.pairs_wait  # pairs are dear: not with each change
        if not due and not (late and (shared.unshared or rests)):
            return
        started = time.perf_counter()
        change = runtime.replica.change(number, pairs=True if rests else None)
        self._sent, self._sent_time, self._failed = number, now, False
        if change is None:
            return
        value = encode_change(change, runtime.seal)
        topic = runtime.topics.exchange
        clients.send(
            self._producer, topic, partition=spec.shard, value=value, on_delivery=self._delivered
        )
        runtime.metrics.change_published(len(value), time.perf_counter() - started)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            return
        self._failed = True
        if not passes(error) and error.code() != KafkaError._MSG_TIMED_OUT:
            topic = self._runtime.topics.exchange
            self._runtime.status.fail_from_thread(unwritten(error, topic, "a change"))
