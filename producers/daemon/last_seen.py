"""What the rating topic holds of this device: an older copy of its journal must not go on.

    newest seq in the topic  <=  last seq in the journal       or the journal is an older copy

A copy that was put back (a backup, another machine) has forgotten what was released after it: it
would draw a second report on the same ratings under the same numbers, and spend a budget that is
spent. The look is bounded: of every partition that holds a device of this journal the last
`LOOKED` records. A device needs no right to read the topic; without it nothing is compared, and the
caller says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

import msgspec
import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from producers.journal import Journal
from stream_app.errors import OlderJournal, UserError
from stream_app.kafka import clients, passing
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_follower import TopicFollower
from stream_app.wire import MAX_EVENT_BYTES, partitions_of
from stream_app.wire.signatures import Signatures, opened

LOOKED = 20_000  # records of a partition
_SECONDS = 20.0
_DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)


class _Numbered(msgspec.Struct):
    seq: int


_packed, _json = msgspec.msgpack.Decoder(_Numbered), msgspec.json.Decoder(_Numbered)


def seq_of(key: bytes | None, value: bytes | None, signatures: Signatures) -> int:
    """Return the seq in a record of the rating topic; 0 for a record that no server counts."""
    if not value or len(value) > MAX_EVENT_BYTES:
        return 0
    found = opened([key], [value], signatures, MAX_EVENT_BYTES)
    if found is not None:
        (event,), refused = found
        if refused[0] or not event:
            return 0
        value = event
    try:
        return (_json if value[:1] == b"{" else _packed).decode(value).seq
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return 0


def newest_seqs(
    connection: Connection,
    topic: str,
    partitions: int,
    devices: Collection[bytes],
    signatures: Signatures,
) -> dict[bytes, int] | None:
    """Return the largest seq of each device in the end of its partition, of so many; None without a
    right to read.

    A device of which the end holds nothing is left out. UserError where the broker does not answer.
    """
    wanted = {device.hex().encode(): device for device in devices}
    found: dict[bytes, int] = {}
    if not wanted:
        return found
    with TopicFollower(
        connection,
        f"{topic}-own",
        _refused,
        _SECONDS,
        auto_offset_reset="latest",
        **clients.BOUNDED_FETCH,
    ) as follower:
        try:
            for message in _newest_records(follower, topic, partitions, list(wanted)):
                device = wanted.get(message.key() or b"")
                if device is not None:
                    seq = seq_of(message.key(), message.value(), signatures)
                    if seq > found.get(device, 0):
                        found[device] = seq
        except KafkaException as error:
            if error.args[0].code() in _DENIED:
                return None
            raise UserError(f"topic {topic} cannot be read: {error.args[0].str()}") from None
    return found


def _refused(_: Any, error: KafkaError) -> None:
    raise KafkaException(error)


def check_newest(journal: Journal, topic: str, newest: dict[bytes, int]) -> None:
    """Raise OlderJournal where the topic holds a later event of a device than its journal knows."""
    for device, seq in newest.items():
        last = journal.seq(device, topic)
        if seq > last:
            raise OlderJournal(
                f"device journal {journal.path}: its last event of device {device.hex()} has the "
                f"number {last}, and {topic} holds number {seq}, so this is an older copy of the "
                "journal, which would spend a spent budget again: put the newest copy back; if it "
                "is lost, begin with another path (--journal), whose budget adds to what was "
                "spent; if this is the newest copy, that event is forged, and --trust-journal goes "
                "on"
            )


def _newest_records(
    follower: TopicFollower, topic: str, partitions: int, keys: list[bytes]
) -> Iterator[Any]:
    """Yield the last records of every partition that holds one of these keys."""
    consumer = follower.consumer
    what = f"topic {topic} cannot be read"
    listed = passing.answered(
        lambda left: consumer.list_topics(topic, timeout=left), _SECONDS, what
    ).topics[topic]
    if listed.error is not None:
        raise KafkaException(listed.error)
    rows = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), 32)
    starts, ends = [], {}
    for number in sorted(set(partitions_of(rows, partitions).tolist())):
        place = TopicPartition(topic, number)
        low, end = passing.answered(partial(_watermarks, consumer, place), _SECONDS, what)
        if end > low:
            starts.append(TopicPartition(topic, number, max(low, end - LOOKED)))
            ends[topic, number] = end
    follower.begin(*starts)
    yield from follower.up_to(ends)


def _watermarks(consumer: Consumer, place: TopicPartition, seconds: float) -> tuple[int, int]:
    low, end = consumer.get_watermark_offsets(place, timeout=seconds, cached=False)
    return low, end
