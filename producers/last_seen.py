"""What the topics hold of this device: an older copy of its journal must not go on.

    newest seq of a report    <=  last seq in the journal          or the journal is an older copy
    stages contributed to     in  those that the journal keeps

A copy that was put back (a backup, another machine) has forgotten what was released after it: it
would draw a second report on the same ratings under the same numbers, and spend a budget that is
spent. It has the key of the newest copy, so it knows the records of that one by their tag
(`Journal.tag`), or, where every event is signed, by the signature. Any other record under its
pseudonym can be anybody's, and proves nothing.

The look is bounded: of every partition that holds a device of this journal the last `LOOKED`
records, of contributions `LOOKED_CONTRIBUTIONS`. What lies before them, or was removed by
retention, is not found. A device needs no right to read a topic; without it nothing is compared,
and the caller says so. A copy that is put back on the same machine
is found without any topic (`producers.journal.high_water_mark`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec
import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from producers.campaign.stage_requests import contributed
from producers.journal import Journal
from stream_app.errors import OlderJournal, UserError
from stream_app.kafka import clients, passing
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_follower import TopicFollower
from stream_app.wire import MAX_EVENT_BYTES, WireError, partitions_of
from stream_app.wire.campaigns.contribution import decode_contribution
from stream_app.wire.ids import partition_of
from stream_app.wire.signatures import TAG, Signatures, digest_of, opened

LOOKED = 20_000  # records of a partition
LOOKED_CONTRIBUTIONS = 200  # of 60 to 180 kB each
_SECONDS = 20.0
_OLDER = (
    ", so this is an older copy of the journal, which would spend a spent budget again: put the "
    "newest copy back; if it is lost, begin with another path (--journal), whose budget adds to "
    "what was spent; --trust-journal goes on with this copy and spends again"
)
_DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)


Newest = tuple[int, bytes | None]
"""A seq, and the bytes of the event."""


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
    owners: Mapping[bytes, Journal],
    signatures: Signatures,
    seconds: float = _SECONDS,
) -> dict[bytes, Newest] | None:
    """Return the newest event of each device that some copy of its journal has made, in the end of
    its partition, of so many; None without a right to read.

    A device of which the end holds nothing is left out. UserError where the broker is silent for
    `seconds`.
    """
    found: dict[bytes, Newest] = {}

    def seen(device: bytes, message: Message) -> None:
        seq = seq_of(message.key(), message.value(), signatures)
        if seq > (found[device][0] if device in found else 0) and (
            signatures.required or _is_tagged(message, topic, device, owners[device])
        ):
            found[device] = seq, message.value()

    looked = _looked(connection, topic, partitions, owners, seen, LOOKED, seconds)
    return found if looked else None


def check_contributions(
    connection: Connection,
    topic: str,
    partitions: int,
    owners: Mapping[bytes, Journal],
    *,
    signed: bool = False,
) -> bool:
    """Raise OlderJournal where the topic holds a contribution of a device to a stage for which its
    journal has none, though a copy of it made that one; return False without a right to read.
    UserError as `newest_seqs`."""

    def seen(device: bytes, message: Message) -> None:
        key = message.key() or b""
        try:
            found = decode_contribution(
                key, message.value(), partition_of(key, partitions), partitions, signed=signed
            )
        except WireError:
            return
        if not contributed(owners[device], device, found.plan, found.stage) and (
            signed or _is_tagged(message, topic, device, owners[device])
        ):
            raise OlderJournal(
                f"device journal {owners[device].path}: it has no contribution of device "
                f"{device.hex()} to stage {found.stage} of the plan {found.plan.hex()[:16]}, and "
                f"{topic} holds one{_OLDER}"
            )

    return _looked(connection, topic, partitions, owners, seen, LOOKED_CONTRIBUTIONS)


def _looked(
    connection: Connection,
    topic: str,
    partitions: int,
    devices: Collection[bytes],
    seen: Callable[[bytes, Message], None],
    most: int,
    seconds: float = _SECONDS,
) -> bool:
    """Give what the ends of the partitions hold of these devices to `seen`; return False without a
    right to read."""
    wanted = {device.hex().encode(): device for device in devices}
    if not wanted:
        return True
    with TopicFollower(
        connection,
        f"{topic}-own",
        _refused,
        seconds,
        auto_offset_reset="latest",
        **clients.BOUNDED_FETCH,
    ) as follower:
        try:
            for message in _newest_records(follower, topic, partitions, list(wanted), most):
                if (device := wanted.get(message.key() or b"")) is not None:
                    seen(device, message)
        except KafkaException as error:
            if error.args[0].code() in _DENIED:
                return False
            raise UserError(f"topic {topic} cannot be read: {error.args[0].str()}") from None
    return True


def _is_tagged(message: Message, topic: str, device: bytes, journal: Journal) -> bool:
    """Return whether a copy of the journal has made this record, its value and no other."""
    own = journal.tag(topic, device, digest_of(message.value() or b""))
    return (TAG, own) in (clients.headers_of(message) or ())


def _refused(_: Any, error: KafkaError) -> None:
    raise KafkaException(error)


def check_newest(journal: Journal, topic: str, newest: Mapping[bytes, Newest]) -> None:
    """Raise OlderJournal where the topic holds a later event of a device than its journal knows, or
    another one under the number of an event that waits."""
    waiting = [each for each in journal.pending() if each.topic == topic]
    held = {(each.device, each.seq): each.value for each in waiting}
    for device, (seq, value) in newest.items():
        last = journal.seq(device, topic)
        if seq > last or held.get((device, seq), value) != value:
            raise OlderJournal(
                f"device journal {journal.path}: its last event of device {device.hex()} has the "
                f"number {last}, and {topic} holds number {seq}{_OLDER}"
            )


def _newest_records(
    follower: TopicFollower, topic: str, partitions: int, keys: list[bytes], most: int
) -> Iterator[Any]:
    """Yield the last records of every partition that holds one of these keys."""
    consumer = follower.consumer
    what, seconds = f"topic {topic} cannot be read", follower.stall_seconds
    listed = passing.answered(
        lambda left: consumer.list_topics(topic, timeout=left), seconds, what
    ).topics[topic]
    if listed.error is not None:
        raise KafkaException(listed.error)
    rows = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), 32)
    starts, ends = [], {}
    for number in sorted(set(partitions_of(rows, partitions).tolist())):
        place = TopicPartition(topic, number)
        low, end = passing.answered(partial(_watermarks, consumer, place), seconds, what)
        if end > low:
            starts.append(TopicPartition(topic, number, max(low, end - most)))
            ends[topic, number] = end
    follower.begin(*starts)
    yield from follower.up_to(ends)


def _watermarks(consumer: Consumer, place: TopicPartition, seconds: float) -> tuple[int, int]:
    low, end = consumer.get_watermark_offsets(place, timeout=seconds, cached=False)
    return low, end
