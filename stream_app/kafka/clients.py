"""Kafka clients in one place: a `Connection`, and the clients made from it.

librdkafka's defaults do not fit: its partitioner places keys differently from the Java client, its
producer may write a record twice, its consumer commits automatically and waits a second when its
queue is full, and its errors go to stderr. A device install contains this module, so it imports
only confluent_kafka, the errors, `diagnosis`, `passing`, and limits and topics of the contract.
"""

from __future__ import annotations

import difflib
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ClusterMetadata, TopicMetadata

from stream_app.errors import NotAdmitted, UserError
from stream_app.kafka import passing
from stream_app.kafka.failures import diagnosis
from stream_app.wire.limits import MAX_BATCH_BYTES, MAX_CONTRIBUTION_BATCH_BYTES
from stream_app.wire.topics import absent, lacking

# The same on every device: a client id per device would identify the device to the broker.
CLIENT_ID = "murmurec"

_PRODUCER: Mapping[str, object] = {
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": "murmur2_random",
    "compression.type": "zstd",
    # Counted before compression, as the broker counts it on a topic that outsiders write: such a
    # topic takes every batch of these producers, however well it compresses.
    "batch.size": MAX_BATCH_BYTES * 3 // 4,
    "message.max.bytes": MAX_BATCH_BYTES,
}
# For the state topic, which workers alone write: fewer batches, and the manifest of a large state.
LARGE_BATCHES: Mapping[str, int] = {"batch_size": 1_000_000, "message_max_bytes": 4 << 20}
# Sealed boxes do not compress, and the broker would expand each batch to store it.
CONTRIBUTION_BATCHES: Mapping[str, int | str] = {
    "compression_type": "none",
    "batch_size": MAX_CONTRIBUTION_BATCH_BYTES * 3 // 4,
    "message_max_bytes": MAX_CONTRIBUTION_BATCH_BYTES,
}
# librdkafka expands every batch of a fetch at once, and zstd expands up to 30,000 times: the bytes
# of a fetch, and not those of a batch, bound the memory that it takes. A batch that is larger than
# a fetch comes alone. `receive.message.max.bytes` is also what a zstd batch may expand to; above it
# is every batch that a topic takes whose max.message.bytes was never more than 4 MB.
BOUNDED_FETCH: Mapping[str, Any] = {
    "fetch_message_max_bytes": 32 * 1024,
    "fetch_max_bytes": 32 * 1024,
    "message_max_bytes": 32 * 1024,
    "receive_message_max_bytes": 4 * 1024 * 1024,
}
_CONSUMER: Mapping[str, object] = {
    "enable.auto.commit": False,
    # A wrong checksum is damage on disk or wire; what else cannot be expanded was sent like that.
    "check.crcs": True,
    # The default of a second throttles a fast reader to a third of what the broker delivers.
    "fetch.queue.backoff.ms": 10,
}
# Properties that the user may not set, since state, order, delivery or privacy rests on them, and
# the fix; aliases too, which would outrank what is set here under the other name.
_POSITIONS = "positions are kept in the checkpoint"
_OWNED: Mapping[str, str] = {
    name: fix
    for fix, names in (
        ("set bootstrap_servers (--bootstrap) instead", "bootstrap.servers metadata.broker.list"),
        ("it is always true", "enable.idempotence"),
        ("it is always all", "acks request.required.acks"),
        ("it is always murmur2_random", "partitioner"),
        ("it is always read_committed, so that all workers read the same records",
         "isolation.level"),
        (_POSITIONS, "enable.auto.commit auto.commit.enable enable.auto.offset.store"),
        (_POSITIONS, "offset.store.method auto.offset.reset"),
        ("it is set for each topic", "check.crcs topic.blacklist default.topic.config"),
        ("it is set for each reader", "enable.partition.eof partition.assignment.strategy"),
        ("it is set for each reader", "group.protocol group.protocol.type group.remote.assignor"),
        ("it bounds the batches that every reader takes",
         "message.max.bytes receive.message.max.bytes fetch.max.bytes fetch.message.max.bytes "
         "max.partition.fetch.bytes"),
        ("it is set for each writer", "transactional.id enable.gapless.guarantee retries"),
        ("it is set for each writer", "message.send.max.retries delivery.report.only.error"),
        ("records keep their order", "queuing.strategy"),
        ("set compression.type instead", "compression.codec"),
        ("the version is asked of the broker",
         "api.version.request api.version.fallback.ms broker.version.fallback"),
        ("topics are made by murmurec topics apply", "allow.auto.create.topics"),
        ("it is the same on every device on purpose", "client.id client.rack enable.metrics.push"),
        ("set group instead", "group.id"),
        ("set instance instead", "group.instance.id"),
        ("events and log are the project's own", "enabled_events logger plugin.library.paths"),
    )
    for name in names.split()
}  # fmt: skip
_PASSED_THROUGH = (
    *("security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password"),
    *("sasl.oauthbearer.config", "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location"),
    *("ssl.certificate.pem", "ssl.key.location", "ssl.key.pem", "ssl.key.password"),
    *("ssl.keystore.location", "ssl.keystore.password", "ssl.endpoint.identification.algorithm"),
    *("enable.ssl.certificate.verification", "linger.ms", "batch.size", "compression.type"),
    *("socket.timeout.ms", "reconnect.backoff.max.ms"),
    *("broker.address.family", "debug"),
)

# The leader may not know a partition just after its topic was created or it restarted, and
# librdkafka itself may not while the broker is away.
_NOT_KNOWN_YET = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
)

# In the log of a producer to which the broker gives no id.
_NO_ID = "Cluster authorization failed"

_Client = TypeVar("_Client")

_LIST_SECONDS = 5.0
_ASK_SECONDS = 1.0  # after which a port is asked for TLS, while librdkafka goes on

# librdkafka logs to this logger and never to stderr.
_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())


@dataclass(frozen=True)
class Connection:
    """The address of a Kafka cluster, and librdkafka properties such as credentials."""

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


class Cluster(Protocol):
    """The cluster that the settings name: addresses and Kafka properties."""

    @property
    def servers(self) -> str:
        """The addresses."""

    @property
    def kafka(self) -> Mapping[str, str]:
        """The properties."""


def connection(bootstrap: str | Connection | None, cluster: Cluster) -> Connection:
    """Return the connection to an address, with the Kafka properties of the settings, as the
    commands have it; None takes the address of the settings, too, and a `Connection` is itself."""
    if isinstance(bootstrap, Connection):
        return bootstrap
    return Connection(bootstrap or cluster.servers, cluster.kafka)


def producer(connection: Connection, **more: Any) -> Producer:
    """Return a producer that neither loses nor duplicates records; `more` as in `linger_ms=5`."""
    return _made(_Producer, _configuration(connection, _PRODUCER, more))


class _Producer(Producer):
    """A producer that names the right to write where this user has none to any topic.

    The broker then gives it no id, which is fatal: librdkafka logs it, and `poll` and `flush` raise
    an error that may be empty, since delivery reports are served with it.
    """

    def __init__(self, configuration: dict[str, Any]) -> None:
        self._topic, self._fatal = "", _Messages(logging.CRITICAL, _log)
        super().__init__({**configuration, "logger": self._fatal.logger})

    def produce(self, topic: str, *arguments: Any, **record: Any) -> None:
        self._topic = topic
        super().produce(topic, *arguments, **record)

    def poll(self, *seconds: float) -> int:
        with self._named():
            return super().poll(*seconds)

    def flush(self, *seconds: float) -> int:
        with self._named():
            return super().flush(*seconds)

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except (KafkaException, SystemError):
            if not any(_NO_ID in message for message in self._fatal.received):
                raise
            what = f"topic {self._topic}" if self._topic else "its topics"
            raise UserError(lacking(what, "WRITE")) from None


class _Messages(logging.Handler):
    """Collects what one client logs at a level or above; also in the log of all with `parent`."""

    def __init__(self, level: int = logging.NOTSET, parent: logging.Logger | None = None) -> None:
        super().__init__(level)
        self.received: list[str] = []
        self.logger = logging.Logger(_log.name)
        self.logger.parent = parent
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.received.append(record.getMessage())

    def error(self, error: KafkaError) -> None:
        self.received.append(error.str())


def consumer(
    connection: Connection, group: str = CLIENT_ID, partition_eof: bool = False, **more: Any
) -> Consumer:
    """Return a consumer that never commits automatically; `partition_eof` makes it report the end
    of a partition."""
    required = {**_CONSUMER, "group.id": group, "enable.partition.eof": partition_eof}
    return _made(Consumer, _configuration(connection, required, more))


def admin(connection: Connection, **more: Any) -> AdminClient:
    """Return an admin client."""
    return _made(AdminClient, _configuration(connection, {}, more))


def _configuration(
    connection: Connection, required: Mapping[str, object], more: Mapping[str, Any]
) -> dict[str, Any]:
    """Join the project's properties, the user's and the caller's."""
    for name in connection.properties:
        # librdkafka and its binding know "topic.NAME" as another name of a topic's property.
        fix = _OWNED.get(name) or _OWNED.get(name.removeprefix("topic."))
        if fix is not None:
            raise UserError(f"Kafka property {name} cannot be set: {fix}")
    dotted = {_dotted(name): value for name, value in more.items()}
    quiet = {"logger": _log, "error_cb": _note}
    fixed = {
        "bootstrap.servers": connection.bootstrap,
        "client.id": CLIENT_ID,
        "enable.metrics.push": False,  # the broker would know a device by the id of its metrics
    }
    return {**quiet, **required, **connection.properties, **dotted, **fixed}


def _dotted(name: str) -> str:
    """Return librdkafka's name of a keyword: linger_ms becomes linger.ms; callbacks keep theirs."""
    return name if name.endswith("_cb") or name == "on_delivery" else name.replace("_", ".")


def _note(error: KafkaError) -> None:
    _log.info("%s", error.str())


def _made(kind: Callable[[dict[str, Any]], _Client], configuration: dict[str, Any]) -> _Client:
    try:
        return kind(configuration)
    except KafkaException as error:
        raise UserError(_unusable(error.args[0].str())) from None
    except (TypeError, ValueError) as error:  # a callback, given as text
        raise UserError(_unusable(str(error))) from None


def _unusable(message: str) -> str:
    """Return the sentence for a configuration that librdkafka rejects, without its value."""
    unknown = re.search(r'No such configuration property: "([^"]*)"', message)
    if unknown:
        near = difflib.get_close_matches(unknown[1], _PASSED_THROUGH, 1)
        fix = f"did you mean {near[0]}?" if near else "see librdkafka's CONFIGURATION.md"
        return f"unknown Kafka property {unknown[1]}: {fix}"
    invalid = re.search(
        r'Invalid value ".*" for configuration property "([^"]*)"', message, re.DOTALL
    )
    if invalid:
        return f"Kafka property {invalid[1]} has a value that librdkafka does not accept"
    plain = message.strip().removeprefix("Failed to create admin client: ")
    return f"the Kafka client cannot be made: {plain.strip()}"


def send(producer: Producer, topic: str, **record: Any) -> None:
    """Queue one record, with the keywords of `produce`; raises BufferError while the queue is full.

    librdkafka rejects at once a record for a topic that it knows to be deleted or not writable by
    this user.
    """
    try:
        producer.produce(topic, **record)
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        fault = f"{topic}: a record was refused ({reason.str()}); check that the topic exists"
        raise UserError(passing.refusal(reason, f"topic {topic}", "WRITE", fault)) from None


def offsets(consumer: Consumer, place: TopicPartition, seconds: float = 30.0) -> tuple[int, int]:
    """Return the first offset of a partition and its end offset, as the broker reports them now;
    `Unanswered` where it does not within `seconds`."""
    what = f"the offsets of topic {place.topic} partition {place.partition} cannot be read"

    def ask(left: float) -> tuple[int, int]:
        low, high = consumer.get_watermark_offsets(place, timeout=left, cached=False)
        return low, high

    try:
        return passing.answered(ask, seconds, what, also=_NOT_KNOWN_YET)
    except KafkaException as error:
        reason: KafkaError = error.args[0]
    if reason.code() in _NOT_KNOWN_YET:
        listed(consumer, min(seconds, _LIST_SECONDS))  # raises where nobody answers that
    fault = f"{what}: {reason.str()}"
    raise UserError(passing.refusal(reason, f"topic {place.topic}", "READ", fault))


def headers_of(message: Message) -> list[tuple[str, bytes | None]] | None:
    """Return the headers of a record; None where the client cannot read them: anybody can write a
    name that is not UTF-8."""
    try:
        found: Any = message.headers()
        return list(found or ())
    except (SystemError, UnicodeDecodeError):
        return None


def exists(consumer: Consumer | AdminClient, topic: str, seconds: float = 30.0) -> bool:
    """Return whether there is a topic; raises `UserError` if this user may not see it, as Kafka
    hides a topic, and also whether there is one, from a user without a right to it."""
    if topic in listed(consumer, seconds):
        return True
    asked = passing.answered(
        lambda left: consumer.list_topics(topic, timeout=left), seconds, f"topic {topic}"
    )
    error = asked.topics[topic].error
    if error is not None and passing.is_denied(error):
        raise UserError(lacking(f"topic {topic}", "READ"))
    return False


def unlisted(consumer: Consumer, topic: str, seconds: float) -> UserError:
    """Return the error for a topic that the broker does not list to this user; raises as
    `exists`."""
    exists(consumer, topic, seconds)
    return UserError(absent(topic))


def listed(
    client: Consumer | Producer | AdminClient, seconds: float = 30.0
) -> dict[str, TopicMetadata]:
    """Return every topic by its name; `Unanswered` where Kafka does not list them in time.

    A request for one by its name creates it where auto-creation is on.
    """
    what = "Kafka did not list its topics"
    try:
        return dict(
            passing.answered(lambda left: client.list_topics(timeout=left), seconds, what).topics
        )
    except KafkaException as error:
        raise UserError(f"{what}: {error.args[0].str()}") from None


# --- reachability ---------------------------------------------------------------------------------


def describe_cluster(connection: Connection, seconds: float = 5) -> ClusterMetadata:
    """Return the cluster's metadata; raises `UserError` that names the cause if the cluster does
    not answer within `seconds`, `NotAdmitted` if it refuses this client."""
    messages = _Messages()
    more = {"socket.timeout.ms": max(1000, int(seconds * 1000)), "reconnect.backoff.max.ms": 500}
    client = admin(connection, logger=messages.logger, error_cb=messages.error, **more)
    # One of several addresses may be down; a single address that refuses fails at once.
    single = "," not in connection.bootstrap
    secure = connection.properties.get("security.protocol", "").upper().endswith("SSL")
    address = connection.bootstrap.split(",")[0].strip()
    deadline = time.monotonic() + seconds
    ask_at = deadline - seconds + min(_ASK_SECONDS, seconds)
    while True:
        try:
            return client.list_topics(timeout=min(0.5, seconds))
        except KafkaException:
            client.poll(0)
        late = time.monotonic() >= deadline
        cause = None
        if single or late:
            ask = late or time.monotonic() >= ask_at
            ask_at = deadline if ask else ask_at
            refused = diagnosis.refusal(messages.received, address, secure, ask)
            if refused is not None:
                raise NotAdmitted(refused)
            cause = diagnosis.cause(messages.received, connection.bootstrap)
        if cause is None and late:
            cause = diagnosis.probe_sentence(address, secure)
        if cause is not None:
            raise UserError(cause)
