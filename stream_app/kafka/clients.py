"""Kafka clients in one place: settings without which records are lost; one sentence on failure.

librdkafka's defaults differ from what is needed here: its partitioner puts keys on other partitions
than every other Kafka client does, its producer may write twice, its consumer commits by itself and
waits a second when its queue is full, and its complaints go to stderr. A device install has this
file, so it imports nothing but confluent_kafka, the errors and `diagnosis`.
"""

from __future__ import annotations

import difflib
import logging
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata

from stream_app.errors import UserError
from stream_app.kafka import diagnosis

# The same on every device: a client id of its own would be one more way to tell devices apart.
CLIENT_ID = "murmurec"

_PRODUCER: Mapping[str, object] = {
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": "murmur2_random",
    "compression.type": "zstd",
}
_CONSUMER: Mapping[str, object] = {
    "enable.auto.commit": False,
    # The default of a second throttles a fast reader to a third of what the broker delivers.
    "fetch.queue.backoff.ms": 10,
}
# A pass-through property must not undo a guarantee; the mend is named beside each.
_OWNED: Mapping[str, str] = {
    "bootstrap.servers": "set bootstrap_servers (--bootstrap) instead",
    "metadata.broker.list": "set bootstrap_servers (--bootstrap) instead",
    "enable.idempotence": "it is always true",
    "acks": "it is always all",
    "request.required.acks": "it is always all",
    "partitioner": "it is always murmur2_random",
    "enable.auto.commit": "positions are kept in the checkpoint",
    "enable.auto.offset.store": "positions are kept in the checkpoint",
    "client.id": "it is the same on every device on purpose",
    "group.id": "set group instead",
}
_PASSED_THROUGH = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "sasl.oauthbearer.config",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
    "linger.ms",
    "batch.size",
    "compression.type",
    "message.max.bytes",
    "socket.timeout.ms",
    "reconnect.backoff.max.ms",
    "broker.address.family",
    "debug",
)

_PAUSE_SECONDS = 0.05
_PASSING = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
    }
)

_Client = TypeVar("_Client")

# What librdkafka says goes to this logger and never to stderr by itself.
_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())


def producer(bootstrap: str, extra: Mapping[str, str] | None = None, **more: Any) -> Producer:
    """Return a producer that neither loses nor doubles records; `more` as in `linger_ms=5`."""
    return _made(Producer, _configuration(bootstrap, extra, _PRODUCER, more))


def consumer(
    bootstrap: str,
    extra: Mapping[str, str] | None = None,
    group: str = CLIENT_ID,
    partition_eof: bool = False,
    **more: Any,
) -> Consumer:
    """Return a consumer that never commits by itself; with `partition_eof` ends are reported."""
    ours = {**_CONSUMER, "group.id": group, "enable.partition.eof": partition_eof}
    return _made(Consumer, _configuration(bootstrap, extra, ours, more))


def admin(bootstrap: str, extra: Mapping[str, str] | None = None, **more: Any) -> AdminClient:
    """Return an administrator of topics."""
    return _made(AdminClient, _configuration(bootstrap, extra, {}, more))


def _configuration(
    bootstrap: str,
    extra: Mapping[str, str] | None,
    ours: Mapping[str, object],
    more: Mapping[str, Any],
) -> dict[str, Any]:
    """Join what the project needs, what the user passes through and what the caller asks for."""
    for name in extra or {}:
        if name in _OWNED:
            raise UserError(f"Kafka property {name} cannot be set: {_OWNED[name]}")
    dotted = {_dotted(name): value for name, value in more.items()}
    quiet = {"logger": _log, "error_cb": _note}
    fixed = {"bootstrap.servers": bootstrap, "client.id": CLIENT_ID}
    return {**quiet, **ours, **(extra or {}), **dotted, **fixed}


def _dotted(name: str) -> str:
    """Return librdkafka's spelling of a keyword: linger_ms is linger.ms; callbacks keep theirs."""
    return name if name.endswith("_cb") or name == "on_delivery" else name.replace("_", ".")


def _note(error: KafkaError) -> None:
    _log.info("%s", error.str())


def _made(kind: Callable[[dict[str, Any]], _Client], configuration: dict[str, Any]) -> _Client:
    try:
        return kind(configuration)
    except KafkaException as error:
        raise UserError(_unusable(error.args[0].str())) from None


def _unusable(said: str) -> str:
    """Return the sentence for a configuration that librdkafka refuses, without its value."""
    unknown = re.search(r'No such configuration property: "([^"]*)"', said)
    if unknown:
        near = difflib.get_close_matches(unknown[1], _PASSED_THROUGH, 1)
        mend = f"did you mean {near[0]}?" if near else "see librdkafka's CONFIGURATION.md"
        return f"unknown Kafka property {unknown[1]}: {mend}"
    invalid = re.search(r'Invalid value ".*" for configuration property "([^"]*)"', said, re.DOTALL)
    if invalid:
        return f"Kafka property {invalid[1]} has a value that librdkafka does not accept"
    plain = said.strip().removeprefix("Failed to create admin client: ")
    return f"the Kafka client cannot be made: {plain.strip()}"


def send(producer: Producer, topic: str, **record: Any) -> None:
    """Queue one record, with the keywords of `produce`; raises BufferError while the queue is full.

    librdkafka refuses at once what it has learned to be refused: a topic that is gone, or one that
    this user may not write to.
    """
    try:
        producer.produce(topic, **record)
    except KafkaException as error:
        raise UserError(
            f"{topic}: a record was refused ({error.args[0].str()}); check that the topic is there "
            "and the right to write to it"
        ) from None


def offsets(consumer: Consumer, place: TopicPartition, seconds: float = 30.0) -> tuple[int, int]:
    """Return the first offset of a partition and the one after its last, asked of the broker."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            low, high = consumer.get_watermark_offsets(place, timeout=seconds, cached=False)
        except KafkaException as error:
            reason: KafkaError = error.args[0]
            # Just after a topic is made or a broker restarts, its leader may not know it yet.
            if reason.code() in _PASSING and time.monotonic() < deadline:
                time.sleep(_PAUSE_SECONDS)
                continue
            raise UserError(
                f"the offsets of topic {place.topic} partition {place.partition} cannot be read: "
                f"{reason.str()}"
            ) from None
        return low, high


# --- is anybody there? ----------------------------------------------------------------------------


def reach(
    bootstrap: str, extra: Mapping[str, str] | None = None, seconds: float = 5
) -> ClusterMetadata:
    """Return what the cluster tells of itself, or refuse with one sentence that names the cause."""
    heard = _Heard()
    more = {"socket.timeout.ms": max(1000, int(seconds * 1000)), "reconnect.backoff.max.ms": 500}
    client = admin(bootstrap, extra, logger=heard.logger, error_cb=heard.error, **more)
    # One of several addresses may be down for a while; a single one that refuses will not change.
    only_one = "," not in bootstrap
    deadline = time.monotonic() + seconds
    while True:
        try:
            return client.list_topics(timeout=min(0.5, seconds))
        except KafkaException:
            client.poll(0)
        late = time.monotonic() >= deadline
        cause = diagnosis.cause(heard.said, bootstrap) if only_one or late else None
        if cause is None and late:
            secure = (extra or {}).get("security.protocol", "").upper().endswith("SSL")
            cause = diagnosis.probe_sentence(bootstrap.split(",")[0].strip(), secure)
        if cause is not None:
            raise UserError(cause)


class _Heard(logging.Handler):
    """What one client complained of, kept instead of printed."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self.logger = logging.Logger(f"{__name__}.reach")
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())

    def error(self, error: KafkaError) -> None:
        self.said.append(error.str())
