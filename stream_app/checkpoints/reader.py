"""Reads the state topic: its newest complete checkpoint, its keys, or its manifests.

The topic is read without a consumer group, from its beginning to the end offset at the time of
reading; `protocol.recovery` selects the checkpoint. Until compaction the topic holds old records of
a page as well, so a start reads a few times the size of the state.
"""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import (
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka.admin import AdminClient

from stream_app.checkpoints.protocol.recovery import (
    CheckpointRefused,
    Found,
    Recovery,
    UnusableCheckpoint,
)
from stream_app.deployment import Deployment
from stream_app.errors import UserError
from stream_app.kafka import clients, compacted
from stream_app.kafka.clients import Connection
from stream_app.kafka.compacted import Progress
from stream_app.wire import Topics, WireError
from stream_app.wire.authenticity.seal import OPEN, Seal
from stream_app.wire.state_records import Manifest, decode_manifest

_TOPIC_SECONDS = 30.0
_CHECK_SECONDS = 1.0
_ABSENT_CHECKS = 3


class DamagedCheckpoint(UserError):
    """The newest checkpoint is damaged; a caller that discards it may go on without it."""


def read_checkpoint(
    deployment: Deployment,
    progress: Progress | None = None,
    report: Callable[[Recovery], None] | None = None,
    seal: Seal | None = None,
) -> Found | None:
    """Return the newest complete checkpoint, None if there is none. `progress` is called with
    (records read, records in the topic), `report` with the recovery, which counts skipped records.
    `seal` takes the place of the deployment's.

    Raises `UserError` for a checkpoint of another spec, rating topic or partition count or of a
    newer format, and `DamagedCheckpoint` for a damaged one that no older checkpoint can replace.
    """
    connection, topics = deployment.connection, deployment.topics
    rating_topic = topic_id(clients.admin(connection), topics.ratings)
    recovery = Recovery(
        deployment.spec.digest, rating_topic, deployment.partitions, seal or deployment.seal
    )
    read(connection, topics, recovery.read, progress)
    try:
        return recovery.newest()
    except UnusableCheckpoint as damaged:
        raise DamagedCheckpoint(f"{topics.state}: {damaged}") from None
    except CheckpointRefused as refused:
        raise UserError(f"{topics.state}: {refused}") from None
    finally:
        if report is not None:
            report(recovery)


def live_keys(connection: Connection, topics: Topics) -> list[bytes]:
    """Return every key of the topic that has a value: the keys that a new owner may remove."""
    live: dict[bytes, None] = {}

    def note(_: int, key: bytes | None, value: bytes | None) -> None:
        if key is not None and value is None:
            live.pop(key, None)
        elif key is not None:
            live[key] = None

    read(connection, topics, note)
    return list(live)


def manifests(
    connection: Connection,
    topics: Topics,
    progress: Progress | None = None,
    seal: Seal = OPEN,
) -> list[Manifest]:
    """Return every readable manifest with this seal, of any design, oldest first; its pages are not
    checked."""
    found: dict[bytes, Manifest] = {}

    def note(_: int, key: bytes | None, value: bytes | None) -> None:
        if key is None or key[:1] != b"M":
            return
        found.pop(key, None)
        try:
            found[key] = decode_manifest(value or b"", seal)
        except WireError:
            return

    read(connection, topics, note, progress)
    return sorted(found.values(), key=lambda each: (each.generation, each.number))


def topic_id(admin: AdminClient, topic: str) -> str:
    """Return the topic id; a recreated topic of the same name has another id."""
    future = admin.describe_topics(TopicCollection([topic]))[topic]
    try:
        return str(future.result(timeout=_TOPIC_SECONDS).topic_id)
    except TimeoutError:
        raise UserError(
            f"topic {topic} cannot be described: the broker did not answer within "
            f"{_TOPIC_SECONDS:.0f} s; try again"
        ) from None
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        if reason.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise UserError(
                f"topic {topic} does not exist: create it with murmurec topics apply"
            ) from None
        if reason.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise UserError(
                f"topic {topic} cannot be seen by this user: give it the right to read or write it"
            ) from None
        raise UserError(f"topic {topic} cannot be described: {reason.str()}") from None


class SameTopic:
    """Detects that a topic was deleted or recreated: offsets then address other records, and a
    consumer does not notice if the new topic is long enough."""

    def __init__(self, admin: AdminClient, topic: str) -> None:
        self.topic_id = topic_id(admin, topic)
        self._admin, self._topic = admin, topic
        self._absent = 0

    def check(self) -> None:
        """Refuse a topic with another id, or one that is absent in three checks in a row: a broker
        that has just started may not list it yet. A check without an answer has no effect."""
        described = self._admin.describe_topics(
            TopicCollection([self._topic]), request_timeout=_CHECK_SECONDS
        )[self._topic]
        try:
            found = str(described.result(timeout=2 * _CHECK_SECONDS).topic_id)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                return
            self._absent += 1
            if self._absent < _ABSENT_CHECKS:
                return
            found = "none"
        except TimeoutError:
            return
        else:
            self._absent = 0
        if found != self.topic_id:
            raise UserError(
                f"topic {self._topic} was deleted or recreated under this worker (topic id "
                f"{found}, not {self.topic_id}): restore it or start a new deployment (--prefix)"
            )


def read(
    connection: Connection,
    topics: Topics,
    take: Callable[[int, bytes | None, bytes | None], None],
    progress: Progress | None = None,
) -> None:
    """Call `take(offset, key, value)` for every record of the state topic, up to its end."""
    for message in compacted.records(connection, topics.state, progress):
        take(message.offset(), message.key(), message.value())  # type: ignore[arg-type]
