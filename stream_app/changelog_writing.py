"""Writing to the logs of a deployment from a command: a whole checkpoint, or one entry of the cut
log; each returns when the broker has it for good.

A worker writes its checkpoints in the background; here nothing else goes on, and no worker may.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError, Message, Producer

from stream_app import changelog, clients
from stream_app.errors import Refusal
from stream_app.log.checkpoint import OWNER_BYTES, Acked, Durable, Event, Freeze, Own, Send, Writer
from stream_app.replica import Replica
from stream_app.snapshot import Snapshot
from stream_app.wire import Topics
from stream_app.wire.checkpoints import Manifest

_SECONDS = 60.0


def write_checkpoint(
    bootstrap: str,
    extra: Mapping[str, str],
    topics: Topics,
    replica: Replica,
    cut_offset: int,
    worker: str,
    progress: Callable[[int], None] | None = None,
) -> Manifest:
    """Write the whole state of a replica, which stands at a cut, as a new generation; return what
    became durable. `progress` hears the bytes acknowledged."""
    snapshot = Snapshot(replica)
    snapshot.freeze()
    snapshot.hash()
    rating_topic = changelog.topic_id(clients.admin(bootstrap, extra), topics.ratings)
    frozen = snapshot.frozen(rating_topic, cut_offset)
    stale = changelog.live_keys(bootstrap, extra, topics)
    line = _Line(bootstrap, extra, topics.state, progress)
    line.drive(Own(secrets.token_bytes(OWNER_BYTES), worker, stale))
    manifest = line.drive(Freeze(frozen))
    if manifest is None:
        raise Refusal(f"{topics.state}: the checkpoint did not become durable; try again")
    return manifest


def append(bootstrap: str, extra: Mapping[str, str], topic: str, value: bytes) -> int:
    """Append one record to a topic of one partition and return its offset."""
    told: list[int] = []
    producer = clients.producer(bootstrap, extra, linger_ms=0)

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise _refusal(topic, error)
        told.append(message.offset() or 0)

    producer.produce(topic, value=value, partition=0, on_delivery=delivered)
    deadline = time.monotonic() + _SECONDS
    while not told:
        producer.poll(0.1)
        if time.monotonic() > deadline:
            raise _late(topic)
    return told[0]


class _Line:
    """The protocol's writer and the producer that carries out what it says."""

    def __init__(
        self,
        bootstrap: str,
        extra: Mapping[str, str],
        topic: str,
        progress: Callable[[int], None] | None,
    ) -> None:
        self._producer: Producer = clients.producer(
            bootstrap, extra, linger_ms=5, compression_type="lz4"
        )
        self._topic = topic
        self._writer = Writer()
        self._progress = progress
        self._bytes = 0
        self._acks: deque[Acked] = deque()

    def drive(self, event: Event) -> Manifest | None:
        """Carry out what follows from an event, until nothing is on its way."""
        durable, waiting, moved = None, 0, time.monotonic()
        outputs = deque(self._writer.step(event))
        while outputs or waiting:
            while outputs:
                output = outputs.popleft()
                if isinstance(output, Durable):
                    durable = output.manifest
                else:
                    self._send(output)
                    waiting += 1
            self._producer.poll(0.05)
            while self._acks:
                waiting, moved = waiting - 1, time.monotonic()
                outputs.extend(self._writer.step(self._acks.popleft()))
            if time.monotonic() - moved > _SECONDS:
                raise _late(self._topic)
        return durable

    def _send(self, send: Send) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                raise _refusal(self._topic, error)
            offset = message.offset()
            self._acks.append(Acked(send.token, -1 if offset is None else offset))
            self._bytes += len(send.value or b"")
            if self._progress is not None:
                self._progress(self._bytes)

        while True:
            try:
                self._producer.produce(
                    self._topic, key=send.key, value=send.value, partition=0, on_delivery=delivered
                )
            except BufferError:
                self._producer.poll(0.05)
            else:
                return


def _refusal(topic: str, error: KafkaError) -> Refusal:
    return Refusal(
        f"{topic} could not be written ({error.str()}): check the topic and the right to write "
        "to it"
    )


def _late(topic: str) -> Refusal:
    return Refusal(
        f"{topic} could not be written: the broker has acknowledged nothing for {_SECONDS:.0f} s; "
        "try again"
    )
