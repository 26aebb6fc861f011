"""Writing to the logs of a deployment from a command: a whole checkpoint, one entry of the cut
log, or rejections; each returns when the broker has it for good.

A worker writes its checkpoints in the background; here nothing else goes on, and no worker may.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, Message

from stream_app.checkpoints import reader as changelog
from stream_app.checkpoints.driver import CheckpointDriver, Delivered
from stream_app.checkpoints.protocol.writer import OWNER_BYTES, Freeze, LeaseAcquired
from stream_app.checkpoints.shadow_copy import Snapshot
from stream_app.deployment import Deployment
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.state.replica import Replica
from stream_app.wire import Rejection, encode_message
from stream_app.wire.state_records import Manifest

_SECONDS = 60.0


def write_checkpoint(
    deployment: Deployment,
    replica: Replica,
    cut_offset: int,
    worker: str,
    progress: Callable[[int], None] | None = None,
) -> Manifest:
    """Write the whole state of a replica, which stands at a cut, as a new generation; return what
    became durable. `progress` hears the bytes acknowledged."""
    connection, topics = deployment.connection, deployment.topics
    snapshot = Snapshot(replica)
    snapshot.freeze()
    snapshot.hash()
    rating_topic = changelog.topic_id(clients.admin(connection), topics.ratings)
    frozen = snapshot.frozen(rating_topic, cut_offset)
    obsolete_keys = changelog.live_keys(connection, topics)
    line = _line(connection, topics.state, progress or (lambda _: None))
    line.drive(LeaseAcquired(secrets.token_bytes(OWNER_BYTES), worker, obsolete_keys))
    manifest = line.drive(Freeze(frozen))
    if manifest is None:
        raise UserError(f"{topics.state}: the checkpoint did not become durable; try again")
    return manifest


def append(connection: Connection, topic: str, value: bytes) -> None:
    """Append one record to a topic of one partition."""
    told = False
    producer = clients.producer(connection, linger_ms=0)

    def delivered(error: KafkaError | None, _: Message) -> None:
        nonlocal told
        if error is not None:
            raise _refusal(topic, error)
        told = True

    producer.produce(topic, value=value, partition=0, on_delivery=delivered)
    deadline = time.monotonic() + _SECONDS
    while not told:
        producer.poll(0.1)
        if time.monotonic() > deadline:
            raise _late(topic)


class RejectionWriter:
    """Writes rejections, one after the other; a second one of a record replaces the first."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._producer = clients.producer(connection)
        self._topic = topic
        self._moved = time.monotonic()

    def __call__(self, rejection: Rejection) -> None:
        """Queue one; waits while the local queue is full, and refuses where one was refused."""
        value = encode_message(rejection)
        self._moved = time.monotonic()
        while True:
            try:
                self._producer.produce(
                    self._topic, key=rejection.key, value=value, on_delivery=self._delivered
                )
            except BufferError:
                self._wait()
            else:
                break
        self._producer.poll(0)

    def flush(self) -> None:
        """Return when the broker has all of them; refuses where one was refused."""
        self._moved = time.monotonic()
        while len(self._producer):
            self._wait()

    def _wait(self) -> None:
        self._producer.poll(0.1)
        if time.monotonic() - self._moved > _SECONDS:
            raise _late(self._topic)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            raise _refusal(self._topic, error)
        self._moved = time.monotonic()


def _line(connection: Connection, topic: str, progress: Callable[[int], None]) -> CheckpointDriver:
    """Return a line that refuses when a record is, or when nothing has come back for long."""
    producer = clients.producer(connection, linger_ms=5, compression_type="lz4")
    moved = time.monotonic()

    def produce(key: bytes, value: bytes | None, on_delivery: Delivered) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            nonlocal moved
            if error is not None:
                raise _refusal(topic, error)
            moved = time.monotonic()
            on_delivery(error, message)

        producer.produce(topic, key=key, value=value, partition=0, on_delivery=delivered)

    def may_go_on() -> bool:
        progress(line.acknowledged_bytes)
        if time.monotonic() - moved > _SECONDS:
            raise _late(topic)
        return True

    line = CheckpointDriver(produce, producer.poll, may_go_on)
    return line


def _refusal(topic: str, error: KafkaError) -> UserError:
    return UserError(
        f"{topic} could not be written ({error.str()}): check the topic and the right to write "
        "to it"
    )


def _late(topic: str) -> UserError:
    return UserError(
        f"{topic} could not be written: the broker has acknowledged nothing for {_SECONDS:.0f} s; "
        "try again"
    )
