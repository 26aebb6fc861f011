"""Finds where a stretch of the log ends that no reader can take.

A batch that expands beyond `clients.BOUNDED_FETCH`, or that does not expand at all, is reported by
librdkafka with its first offset and never passed. A reader that begins anywhere inside the batch
gets the same report, and one that begins after it does not: so its end is found by steps that
double, and then by halving. Which offsets the batch has, and so which records are rejected as
`unreadable`, is the same for every reader of the log.

A batch whose checksum is wrong is damage on the broker's disk, not an unreadable record: another
copy of the partition may hold the records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.passing import passes

_CODES = (KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG)
_CHECKSUM = "CRC32C"
_ANSWER_SECONDS = 5.0
_STRETCH_SECONDS = 1.0
# Of one answer: 20 kB can hold a hundred million records, and a reader holds each until its round.
MOST_RECORDS = 1 << 16


def is_unreadable(error: KafkaError) -> bool:
    """Return whether an error of a partition means that a batch was sent in a form that cannot be
    read, rather than damaged since."""
    return error.code() in _CODES and _CHECKSUM not in error.str()


def expands(error: KafkaError) -> bool:
    """Return whether an error means a compressed batch that cannot be expanded. In a topic that
    stores batches uncompressed the broker's disk cannot make one of another."""
    return error.code() == KafkaError._BAD_COMPRESSION and _CHECKSUM not in error.str()


def readable_from(
    connection: Connection,
    group: str,
    place: TopicPartition,
    most: int,
    unreadable: Callable[[KafkaError], bool] = is_unreadable,
    **properties: Any,
) -> int:
    """Return the first offset after the unreadable batches that begin at `place`; `unreadable` are
    the errors of such a batch, `properties` those of the consumer that asks.

    In a long stretch, after `most` to twice as many records, and where the broker stops to answer,
    it returns an earlier offset in or before such a batch: the caller meets the same report there.
    """
    probe = _Probe(connection, group, place.topic, place.partition, unreadable, properties)
    end, deadline = place.offset, time.monotonic() + _STRETCH_SECONDS
    last = end + most
    try:
        while end < last and time.monotonic() < deadline:
            if (first := probe.batch_at(end)) is None:
                break
            end = end_of_batch(probe.batch_at, first, end, last)
    except TimeoutError:
        pass
    finally:
        probe.close()
    return end


def end_of_batch(batch_at: Callable[[int], int | None], first: int, inside: int, last: int) -> int:
    """Return the offset after the unreadable batch from `first` on, which holds `inside`, or an
    offset in it from `last` on; about 2 log2(n) questions for n records after `inside`."""
    step = 1
    while batch_at(inside + step) == first:
        inside, step = inside + step, 2 * step
        if inside >= last:
            return inside
    outside = inside + step
    while outside - inside > 1:
        middle = (inside + outside) // 2
        if batch_at(middle) == first:
            inside = middle
        else:
            outside = middle
    return outside


class _Probe:
    """Asks, offset by offset, whether a batch of one partition is unreadable."""

    def __init__(
        self,
        connection: Connection,
        group: str,
        topic: str,
        partition: int,
        unreadable: Callable[[KafkaError], bool],
        properties: Mapping[str, Any],
    ) -> None:
        self._topic, self._partition, self._unreadable = topic, partition, unreadable
        self._known: dict[int, int | None] = {}
        self._consumer: Consumer = clients.consumer(
            connection,
            group=group,
            partition_eof=True,
            auto_offset_reset="error",
            fetch_wait_max_ms=10,
            fetch_error_backoff_ms=10,
            # One batch a fetch: a probe needs no more, and each batch may expand.
            **{**clients.BOUNDED_FETCH, "fetch_message_max_bytes": 1, **properties},
        )

    def batch_at(self, offset: int) -> int | None:
        """Return the first offset of the unreadable batch that holds `offset`; None if a reader
        that begins at `offset` gets a record or the end of the partition. TimeoutError without an
        answer."""
        if offset not in self._known:
            self._known[offset] = self._ask(offset)
        return self._known[offset]

    def _ask(self, offset: int) -> int | None:
        self._consumer.assign([TopicPartition(self._topic, self._partition, offset)])
        deadline = time.monotonic() + _ANSWER_SECONDS
        while time.monotonic() < deadline:
            message = self._consumer.poll(0.1)
            if message is None:
                continue
            error = message.error()
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                return None
            if message.topic() is not None and self._unreadable(error):
                first = message.offset()
                return first if first is not None and first <= offset else None
            if message.topic() is not None and not passes(error):
                return None  # the reader meets the same error there
        raise TimeoutError

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()
