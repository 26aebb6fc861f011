"""Publishes what this shard has learned of items, for the other shards.

At a cut the owner of the shard's clock reads the change since the last one that was merged, and
writes it to the exchange. Nothing of the state changes by that: the change is merged when an entry
of the cut log says so, here as in every other shard. One is under way at a time; what a crash, a
broker or another owner loses is part of the next one. Where no more is learned, the rest follows:
tables of pairs, what did not fit, and what devices say of the weights of lists.
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
        self._under_way = self._whole = False

    def at_cut(self) -> None:
        """Write a change if one is due; the state is that of a cut."""
        self._producer.poll(0)
        runtime, spec = self._runtime, self._runtime.replica.spec
        shared, now = runtime.replica.shared, time.monotonic()
        if shared is None or not runtime.status.clock_owned or runtime.state_reason():
            return
        number = shared.numbers[spec.shard] + 1
        waited, learned = now - self._sent_time, shared.unshared
        if self._under_way or (self._sent >= number and waited < _PATIENCE_SECONDS):
            return
        served = runtime.recommender.served
        fits = None if served is None else served.derived.fits
        self._whole &= not learned and (fits is None or shared.has_fits(fits))
        due = self._meetings.due(learned, shared.ratings, spec.shards)
        if self._whole or not (due or waited >= _SECONDS):
            return
        started = time.perf_counter()
        change = runtime.replica.change(number, pairs=None if learned else True, fits=fits)
        self._sent_time, self._whole = now, change is None
        if change is None:
            return
        value = encode_change(change, runtime.seal)
        topic = runtime.topics.exchange
        clients.send(
            self._producer, topic, partition=spec.shard, value=value, on_delivery=self._delivered
        )
        self._sent, self._under_way = number, True
        runtime.metrics.change_published(len(value), time.perf_counter() - started)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        self._under_way = False
        if error is None:
            return
        self._sent = 0
        if not passes(error) and error.code() != KafkaError._MSG_TIMED_OUT:
            topic = self._runtime.topics.exchange
            self._runtime.status.fail_from_thread(unwritten(error, topic, "a change"))
