"""Which mechanisms devices use that the workers do not allow, from the newest rejections.

A rejection names place and reason, never what a record holds, so the newest of those records are
read again. A name is what a device wrote: it is shown only where it has the form of one.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence

import msgspec
from confluent_kafka import Message, TopicPartition

from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import BOUNDED_FETCH, Connection
from stream_app.kafka.topic_follower import TopicFollower, records
from stream_app.wire import Reason, Rejection, Topics, WireError, decode_message
from stream_app.wire.signatures.envelope import HEAD_BYTES, envelope_device

RECENT_SECONDS = 86_400.0
_NEWEST = 1_000  # rejections
_LOOKED_AT = 20  # records that are read again
_ID = re.compile(r"[a-z0-9_]+(:[A-Za-z0-9_.+/-]+){1,4}")
_READ_SECONDS = 5.0  # for all of them


class _Named(msgspec.Struct):
    mechanism: str


def check_devices(connection: Connection, names: Topics, now: float) -> str:
    """Refuse a deployment of whose newest rejections some are for a mechanism."""
    found: list[tuple[int, int]] = []
    for message in records(connection, names.rejected, newest=_NEWEST):
        try:
            rejection = decode_message(Rejection, message.value() or b"")
        except WireError:
            continue
        recent = now - message.timestamp()[1] / 1000 < RECENT_SECONDS
        not_allowed = rejection.reason is Reason.MECHANISM_NOT_ALLOWED
        if recent and not_allowed and rejection.topic == names.ratings:
            found.append((rejection.partition, rejection.offset))
    if not found:
        return "none of the newest rejections is for a mechanism"
    which = Counter(_read_again(connection, names.ratings, found[-_LOOKED_AT:]))
    shown = ", ".join(name for name, _ in which.most_common()) or "mechanisms no longer in the log"
    raise UserError(
        f"{len(found):,} of the newest {_NEWEST:,} rejections, of the last day, are of devices "
        f"that use {shown}: update them, or allow it on workers and gateways (mechanisms)"
    )


def _read_again(connection: Connection, topic: str, places: Sequence[tuple[int, int]]) -> list[str]:
    """Return the mechanism that each record names; what the log no longer holds is left out."""
    found: list[str] = []
    deadline = time.monotonic() + _READ_SECONDS
    group = f"{topic}-reading"
    with TopicFollower(connection, group, lambda *_: None, **BOUNDED_FETCH) as follower:
        for partition, offset in places:
            low, end = clients.offsets(follower.consumer, TopicPartition(topic, partition))
            if not low <= offset < end:
                continue
            follower.begin(TopicPartition(topic, partition, offset))
            while follower.positions[topic, partition] == offset and time.monotonic() < deadline:
                found += [
                    mechanism_in(message)
                    for message in follower.take(0.2, 1)
                    if message.offset() == offset
                ]
    return found


def mechanism_in(message: Message) -> str:
    """Return the mechanism that an event names, `another` where it is not to be seen."""
    value = message.value() or b""
    if envelope_device(value) is not None:
        value = value[HEAD_BYTES:]
    decode = msgspec.json.decode if value[:1] == b"{" else msgspec.msgpack.decode
    try:
        name: str = decode(value, type=_Named).mechanism
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "another"
    return name if len(name) <= 64 and _ID.fullmatch(name) else "another"
