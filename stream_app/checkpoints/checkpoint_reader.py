"""Reads the state topic: its newest complete checkpoint, its keys, or its manifests.

The topic is read without a consumer group, from its beginning to the end offset at the time of
reading; `protocol.recovery` selects the checkpoint, and `protocol.streaming` puts its pages in
place meanwhile: beside the state a recovery holds the digests of pages and a few MiB of records.
Until compaction the topic holds old records of a page as well, so a start reads a few times the
size of the state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

from confluent_kafka import (
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
)
from confluent_kafka.admin import AdminClient

from stream_app.checkpoints.cut_log_scan import CutLogScan
from stream_app.checkpoints.design_in_force import in_force
from stream_app.checkpoints.protocol.recovery import (
    WAYS_OUT,
    CheckpointRefused,
    Found,
    OtherDesign,
    Recovery,
    UnusableCheckpoint,
)
from stream_app.checkpoints.protocol.streaming import StreamedRecovery
from stream_app.checkpoints.replica_pages import ReplicaPages
from stream_app.deployment import Deployment
from stream_app.errors import UserError
from stream_app.kafka import clients, passing, topic_follower
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_follower import Progress, TopicReader
from stream_app.state.design import recorded_spec
from stream_app.state.replica import Replica
from stream_app.state.spec import StateSpec
from stream_app.wire import Topics, WireError
from stream_app.wire.authenticity.seal import OPEN, Seal
from stream_app.wire.state_records import Manifest, decode_manifest, decode_page, page_digest
from stream_app.wire.topics import absent

_TOPIC_SECONDS = 30.0
_CHECK_SECONDS = 1.0
_ABSENT_CHECKS = 3
_HINTS = (64, 512, 4096)
"""How many records before the end the newest manifest is looked for, in turn."""


class DamagedCheckpoint(UserError):
    """The newest checkpoint is damaged; a caller that discards it may go on without it."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A checkpoint and the replica that it holds; `survey` is what was read of the topic."""

    manifest: Manifest
    replica: Replica
    survey: Survey


@dataclass(frozen=True, eq=False)
class Survey:
    """What the state topic held before `position`."""

    rules: Recovery
    position: int


def read_checkpoint(
    deployment: Deployment,
    progress: Progress | None = None,
    report: Callable[[Recovery], None] = lambda _: None,
    seal: Seal | None = None,
) -> Checkpoint | None:
    """Return the newest complete checkpoint, None if there is none. `progress` is called with
    (records read, records in the topic), `report` with the recovery, which counts skipped records.
    `seal` takes the place of the deployment's.

    The replica has the design in force, whatever that of the deployment is. Raises `UserError` for
    a checkpoint whose design cannot be taken from it, of another rating topic or partition count or
    of a newer format, and `DamagedCheckpoint` for a damaged one that no older checkpoint can
    replace.
    """
    deployment, others = _designed(replace(deployment, seal=seal or deployment.seal))
    recovery = _recovery(deployment, others)
    store = ReplicaPages(deployment.spec)
    streamed = StreamedRecovery(recovery, store)
    with _reading(deployment, recovery, report) as (topic, pool):
        found = _streamed(streamed, topic, pool, progress, others)
        if found is None:
            return None
        survey = Survey(recovery, streamed.position)
        return Checkpoint(found.manifest, store.finished(found), survey)


def read_manifest(deployment: Deployment, progress: Progress | None = None) -> Manifest | None:
    """Return the manifest of the checkpoint that `read_checkpoint` would return; raises as it
    does."""
    deployment, others = _designed(deployment)
    recovery = _recovery(deployment, others)
    with _reading(deployment, recovery) as (topic, pool):
        for batch, digests in _hashed(topic.batches(topic.low, progress), pool):
            for message, digest in zip(batch, digests, strict=True):
                others.note(message)
                recovery.read(*_record(message), digest)
        found = recovery.newest()
        return found.manifest if found else None


class _OtherDesigns:
    """The designs of manifests that are not in force: those whose headers prove another one."""

    def __init__(self, spec: StateSpec) -> None:
        self._spec = spec
        self._known: set[str] = set()

    def note(self, message: Message) -> None:
        """Note the design of a manifest."""
        key = message.key()
        if key is not None and key[:1] == b"M":
            spec = recorded_spec(message.headers(), self._spec.seed)
            if spec is not None and spec != self._spec:
                self._known.add(spec.digest)

    def __contains__(self, design: str) -> bool:
        return design in self._known


def _designed(deployment: Deployment) -> tuple[Deployment, _OtherDesigns]:
    """Return the deployment with the design of the checkpoint that is in force."""
    spec = in_force(deployment).first
    return replace(deployment, spec=spec), _OtherDesigns(spec)


def _recovery(deployment: Deployment, others: _OtherDesigns) -> Recovery:
    superseded = CutLogScan(deployment.connection, deployment.topics.cuts).superseded
    rating_topic = topic_id(clients.admin(deployment.connection), deployment.topics.ratings)
    return Recovery(
        deployment.spec.digest,
        rating_topic,
        deployment.partitions,
        deployment.seal,
        lambda manifest: manifest.design in others or superseded(manifest),
    )


@contextmanager
def _reading(
    deployment: Deployment,
    recovery: Recovery,
    report: Callable[[Recovery], None] = lambda _: None,
) -> Iterator[tuple[TopicReader, ThreadPoolExecutor]]:
    """Open the state topic; a refusal becomes a `UserError`, and `report` is called at the end."""
    name = deployment.topics.state
    try:
        with TopicReader(deployment.connection, name) as topic, ThreadPoolExecutor(2) as pool:
            yield topic, pool
    except UnusableCheckpoint as damaged:
        raise DamagedCheckpoint(f"{name}: {damaged}") from None
    except OtherDesign as other:
        found = difference(deployment, other.design)
        refusal = (
            f"the checkpoint was made with other settings ({found}): set them back, {WAYS_OUT}"
        )
        raise UserError(f"{name}: {refusal if found else other}") from None
    except CheckpointRefused as refused:
        raise UserError(f"{name}: {refused}") from None
    except ValueError as error:
        raise UserError(f"{name}: the checkpoint does not fit: {error}") from None
    finally:
        report(recovery)


def _streamed(
    streamed: StreamedRecovery,
    topic: TopicReader,
    pool: ThreadPoolExecutor,
    progress: Progress | None,
    others: _OtherDesigns,
) -> Found | None:
    """Read the topic until a checkpoint is in place; pages are hashed by the pool."""
    for newest in _HINTS:
        near_end = topic.batches(topic.before_end(newest))
        if streamed.hint(_noted(m, others) for batch in near_end for m in batch):
            break
        if topic.before_end(newest) == topic.low:
            break
    start = topic.low
    while True:
        for batch, digests in _hashed(topic.batches(start, progress), pool):
            for message, digest in zip(batch, digests, strict=True):
                streamed.read(*_noted(message, others), digest)
        found = streamed.decide()
        if not isinstance(found, int):
            return found
        start = found


def _hashed(
    batches: Iterator[list[Message]], pool: ThreadPoolExecutor
) -> Iterator[tuple[list[Message], list[bytes | None]]]:
    """Yield batches with the digests of their pages, computed while the next batch is read."""
    waiting: deque[tuple[list[Message], Future[list[bytes | None]]]] = deque()
    for batch in batches:
        waiting.append((batch, pool.submit(_digests, batch)))
        while len(waiting) > 2:
            ready, digests = waiting.popleft()
            yield ready, digests.result()
    for ready, digests in waiting:
        yield ready, digests.result()


def _digests(batch: list[Message]) -> list[bytes | None]:
    return [_digest(*_record(message)[1:]) for message in batch]


def _digest(key: bytes | None, value: bytes | None) -> bytes | None:
    """Return the digest of a page, None for any other record."""
    if key is None or key[:1] != b"P" or value is None:
        return None
    try:
        return page_digest(decode_page(value)[1])
    except WireError:
        return None


def _record(message: Message) -> tuple[int, bytes | None, bytes | None]:
    return message.offset(), message.key(), message.value()  # type: ignore[return-value]


def _noted(message: Message, others: _OtherDesigns) -> tuple[int, bytes | None, bytes | None]:
    others.note(message)
    return _record(message)


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


def difference(deployment: Deployment, design: str) -> str:
    """Return the settings in which the checkpoints of a design differ from this deployment, with
    both values, from the headers of a manifest; empty where no manifest has them."""
    for message in topic_follower.records(deployment.connection, deployment.topics.state):
        _, key, value = _record(message)
        if key is None or key[:1] != b"M":
            continue
        try:
            manifest = decode_manifest(value or b"", deployment.seal)
        except WireError:
            continue
        if manifest.design == design and (found := deployment.spec.difference(message.headers())):
            return found
    return ""


def topic_id(admin: AdminClient, topic: str) -> str:
    """Return the topic id; a recreated topic of the same name has another id."""
    what = f"topic {topic} cannot be described"

    def ask(left: float) -> str:
        asked = admin.describe_topics(TopicCollection([topic]), request_timeout=max(1.0, left))
        return str(asked[topic].result(timeout=left).topic_id)

    try:
        return passing.answered(ask, _TOPIC_SECONDS, what)
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        if reason.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise UserError(absent(topic)) from None
        fault = f"{what}: {reason.str()}"
        raise UserError(passing.refusal(reason, f"topic {topic}", "READ", fault)) from None


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
    for message in topic_follower.records(connection, topics.state, progress):
        take(*_record(message))
