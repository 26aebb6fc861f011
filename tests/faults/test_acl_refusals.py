"""What a role may not do is refused by the broker; a wrong way to log in is one sentence.

Cells of the matrix principal x resource x operation that are not in the table of rights: each is
tried with a plain client, by the user of the role, and neither read nor changes anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from stream_app.kafka import acls, clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_admin import create
from stream_app.wire import Topics
from stream_app.wire.topics import FEATURES
from tests.faults.secured import Commands, Secured, secured
from tests.fixtures.small_worker import SMALL
from tests.fixtures.waiting import PATIENCE_SECONDS, until

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}
_READ, _WRITE = AclOperation.READ, AclOperation.WRITE
_CREATE, _DELETE = AclOperation.CREATE, AclOperation.DELETE
_ALTER, _CONFIGURE = AclOperation.ALTER, AclOperation.ALTER_CONFIGS
_SEE = AclOperation.DESCRIBE_CONFIGS


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Give the broker with the topics of two deployments, of every feature."""
    with secured(tmp_path_factory.mktemp("secured")) as made:
        for prefix in ("own", "other"):
            create(clients.admin(Connection(made.bootstrap)), Topics(prefix).table())
        for role in acls.ROLES:
            rights = acls.bindings(role, role, Topics("own"), FEATURES, "own-worker")
            acls.grant(Connection(made.bootstrap), rights)
            until(lambda r=role, w=rights: len(made.rights(r)) == len(w), "the rights are there")
        yield made


def permitted(role: str, topic: str) -> set[AclOperation]:
    """Return what the table lets a role do with a topic; what is altered may be seen."""
    found = set(acls.of_role(role, Topics("own"), FEATURES).get(topic, ()))
    if topic.startswith("own."):
        found |= set(acls.EVERY_TOPIC.get(role, ()))
    return found | ({_SEE} if _CONFIGURE in found else set())


def code(future: object) -> int:
    """Return the code of the error in which a request ends; 0 for none."""
    try:
        result = future.result(timeout=PATIENCE_SECONDS)  # type: ignore[attr-defined]
        places = getattr(result, "topic_partitions", ())
        return next((place.error.code() for place in places if place.error), 0)
    except KafkaException as error:
        found: int = error.args[0].code()
        return found
    return 0


def configured(topic: str) -> ConfigResource:
    entry = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    return ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])


def administered(admin: AdminClient, topic: str) -> dict[AclOperation, Callable[[], int]]:
    """Return how each operation of an administrator is tried; nothing is done where it can."""

    def only(asked: dict[object, object]) -> int:
        (future,) = asked.values()
        return code(future)

    new, more = [NewTopic(f"{topic}.new", 1, 1)], [NewPartitions(topic, 9)]
    place = [TopicPartition(topic, 0, 0)]
    return {
        _CREATE: lambda: only(admin.create_topics(new, validate_only=True)),
        _ALTER: lambda: only(admin.create_partitions(more, validate_only=True)),
        _CONFIGURE: lambda: only(
            admin.incremental_alter_configs([configured(topic)], validate_only=True)
        ),
        _SEE: lambda: only(
            admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)])
        ),
        _DELETE: lambda: only(admin.delete_records(place)) and only(admin.delete_topics([topic])),
    }


def written(connection: Connection, topics: list[str]) -> dict[str, int]:
    """Return the code in which the write of a record to each topic ends; 0: it was written."""
    found: dict[str, int] = {}
    # Not idempotent: a user who may write no topic at all gets an answer for each.
    producer = clients.producer(connection, enable_idempotence=False)
    for topic in topics:

        def delivered(error: KafkaError | None, _: object, topic: str = topic) -> None:
            found[topic] = 0 if error is None else error.code()

        try:
            producer.produce(topic, b"x", on_delivery=delivered)
        except KafkaException as error:
            found[topic] = error.args[0].code()
    assert producer.flush(PATIENCE_SECONDS) == 0
    return found


def read(connection: Connection, topics: list[str]) -> dict[str, int]:
    """Return the code in which reading each topic from its beginning ends; 0: a record came. A
    topic of which the user may see nothing has no leader to fetch from."""
    found: dict[str, int] = {}
    consumer = clients.consumer(connection)
    for topic in topics:
        error = consumer.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic].error
        if error is not None:
            found[topic] = error.code()
    consumer.assign([TopicPartition(topic, 0, 0) for topic in topics if topic not in found])

    def answered() -> bool:
        for message in consumer.consume(100, 0.1):
            error, topic = message.error(), message.topic()
            if topic is not None:
                found.setdefault(topic, 0 if error is None else error.code())
        return len(found) == len(topics)

    until(answered, "each topic is answered")
    consumer.close()
    return found


@pytest.mark.parametrize("role", acls.ROLES)
def test_what_the_table_does_not_grant_is_refused(broker: Secured, role: str) -> None:
    """Each cell that is not in the table, in both deployments."""
    connection = broker.connection(role)
    admin = clients.admin(connection)
    rows = [row.name for prefix in ("own", "other") for row in Topics(prefix).table()]
    tried = 0
    for operation, attempt in ((_WRITE, written), (_READ, read)):
        topics = [topic for topic in rows if operation not in permitted(role, topic)]
        found = attempt(connection, topics)
        assert set(found) == set(topics)
        assert {topic: code for topic, code in found.items() if code not in DENIED} == {}
        tried += len(topics)
    for topic in rows:
        for operation, ask in administered(admin, topic).items():
            if operation not in permitted(role, topic):
                assert ask() in DENIED, (role, operation.name, topic)
                tried += 1
    everything = len(rows) * 7
    allowed = sum(
        len(permitted(role, topic) & {_WRITE, _READ, _CREATE, _ALTER, _CONFIGURE, _SEE, _DELETE})
        for topic in rows
    )
    assert tried == everything - allowed
    assert {row.name for row in Topics("own").table()} <= set(
        clients.listed(clients.admin(Connection(broker.bootstrap)))
    )


@pytest.mark.parametrize("role", acls.ROLES)
def test_groups_of_others_and_the_cluster_are_refused(broker: Secured, role: str) -> None:
    """Only a worker joins a group, its own; nobody changes another's place, a right or a user."""
    connection = broker.connection(role)
    admin = clients.admin(connection)
    for group in ("own-worker", "own-worker-queries", "other-worker"):
        mine = role == "worker" and group.startswith("own-")
        assert (joined(connection, group) == 0) == mine, group
        place = ConsumerGroupTopicPartitions(group, [TopicPartition("own.queries.v1", 0, 0)])
        (moved,) = admin.alter_consumer_group_offsets([place]).values()
        if not mine:
            assert code(moved) in DENIED, group
        (deleted,) = admin.delete_consumer_groups([group]).values()
        assert code(deleted) in DENIED, group
    anything = (ResourcePatternType.LITERAL, f"User:{role}", "*", AclOperation.ALL)
    more = AclBinding(ResourceType.TOPIC, "own.state.v1", *anything, AclPermissionType.ALLOW)
    (granted,) = admin.create_acls([more]).values()
    assert code(granted) in DENIED
    entry = ConfigEntry("log.retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    server = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    (changed,) = admin.incremental_alter_configs([server], validate_only=True).values()
    assert code(changed) in DENIED


def joined(connection: Connection, group: str) -> int:
    """Return 0 where a group can be joined, else the code of the error."""
    consumer = clients.consumer(connection, group, auto_offset_reset="earliest")
    found: list[int] = []
    consumer.subscribe(["own.queries.v1"], on_assign=lambda *_: found.append(0))

    def answered() -> bool:
        message = consumer.poll(0.1)
        error = None if message is None else message.error()
        if error is not None:
            found.append(error.code())
        return bool(found)

    until(answered, f"group {group} is joined or refused")
    consumer.close()
    return found[0]


# --- the steps of `acl` ---------------------------------------------------------------------------

_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP
_LITERAL, _PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
_ALL, _ALLOW = AclOperation.ALL, AclPermissionType.ALLOW
BESIDES = {
    "every topic": (_TOPIC, "*", _LITERAL, "User:reader", "*", _READ, _ALLOW),
    "every operation": (_TOPIC, "own.queries.v1", _LITERAL, "User:reader", "*", _ALL, _ALLOW),
    "a prefix": (_TOPIC, "own.queries.v1", _PREFIXED, "User:reader", "*", _WRITE, _ALLOW),
    "one host": (_TOPIC, "own.queries.v1", _LITERAL, "User:reader", "10.0.0.1", _WRITE, _ALLOW),
    "a denial": (
        *(_TOPIC, "own.queries.v1", _LITERAL, "User:reader", "*", _WRITE),
        AclPermissionType.DENY,
    ),
    "a group": (_GROUP, "other", _PREFIXED, "User:reader", "*", _READ, _ALLOW),
    "transactions": (
        *(ResourceType.TRANSACTIONAL_ID, "x", _LITERAL, "User:reader", "*", _WRITE, _ALLOW),
    ),
    "the cluster": (
        *(ResourceType.BROKER, "kafka-cluster", _LITERAL, "User:reader", "*", _CREATE, _ALLOW),
    ),
    "everyone's": (_TOPIC, "own.cuts.v1", _LITERAL, "User:*", "*", _READ, _ALLOW),
}
CHECKED = "acl check --role reader --user reader"


@pytest.mark.parametrize("right", BESIDES)
def test_a_right_besides_those_of_the_role_is_named(
    broker: Secured, commands: Commands, right: str
) -> None:
    assert "reader has 2 rights of a reader" in commands.works("", CHECKED)
    extra = AclBinding(*BESIDES[right])
    acls.grant(Connection(broker.bootstrap), [extra])
    until(lambda: extra in broker.rights(extra.principal[5:]), "the right is there")
    sentence = commands.refused("", CHECKED)
    broker.take_away(extra)
    words = (extra.permission_type.name, extra.operation.name, extra.name)
    assert "reader has besides its role" in sentence
    assert "lacks" not in sentence
    assert all(word in sentence for word in words), sentence
    commands.works("", CHECKED)


def test_each_right_that_a_user_lacks_is_named(broker: Secured, commands: Commands) -> None:
    first, second = broker.rights("reader")
    with broker.without(first), broker.without(second):
        sentence = commands.refused("", CHECKED)
    for each in (first, second):
        assert f"ALLOW {each.operation.name} on topic {each.name} (literal" in sentence
    assert "besides" not in sentence


@pytest.mark.parametrize("words", ["acl apply", "acl check"])
def test_a_user_who_may_not_look_at_rights_is_told_so(commands: Commands, words: str) -> None:
    said = commands.refused("reader", f"{words} --role reader --user reader")
    assert re.search("no right to (ALTER|DESCRIBE) the cluster: run this as a super user", said)


@pytest.mark.parametrize("step", ["print", "apply", "check", "check --user x"])
def test_a_role_without_rights_here_names_the_setting(commands: Commands, step: str) -> None:
    user = "" if step.startswith("check") else " --user x"
    sentence = commands.refused("aggregator", f"acl {step} --role aggregator{user}")
    assert "aggregator: a role of campaigns; set privacy_mode = split or central" in sentence


# --- logging in -----------------------------------------------------------------------------------

DEVICE = "0" * 32
KINDS = {
    "device": "publish --user ann --item 7 --rating 4",
    "reader": f"ask --device {DEVICE}",
    "editor": "items list",
    "worker": "worker --admin-port 0",
    "gateway": "gateway --port 0",
    "aggregator": "aggregate --party central --folder .",
    "operator": "topics apply",
    "auditor": "audit wire",
}
CHECK = "acl check --role reader"
WRONG: dict[str, tuple[dict[str, str], str]] = {
    "user": ({"sasl.username": "nobody"}, "refuses the user name or password"),
    "mechanism": ({"sasl.mechanism": "PLAIN"}, "does not accept this sasl.mechanism"),
    "no authority": ({"ssl.ca.location": ""}, "set ssl.ca.location"),
    "another authority": ({"ssl.ca.location": "user.crt"}, "set ssl.ca.location"),
    "no TLS, no password": ({"security.protocol": "PLAINTEXT"}, "expects TLS"),
    "no TLS": ({"security.protocol": "SASL_PLAINTEXT"}, "expects TLS"),
    "no password": ({"security.protocol": "SSL"}, "a client without a password"),
}
# Protocol of a client -> what it is told on the port without TLS and passwords, and on the one with
# passwords alone.
PLAIN_PORTS = {
    "SASL_SSL": ("does not speak TLS", "does not speak TLS"),
    "SSL": ("does not speak TLS", "does not speak TLS"),
    "SASL_PLAINTEXT": ("asks for no password on this port", ""),
    "PLAINTEXT": ("", "client without a password"),
}


@pytest.fixture
def commands(
    broker: Secured,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Commands:
    """Give the commands of a deployment, in a folder with a device and a party's keys."""
    monkeypatch.chdir(tmp_path)
    Path("user.crt").write_bytes((broker.keys / "user.crt").read_bytes())
    settings = {**SMALL, "MURMUREC_DATA_DIR": ".", "MURMUREC_DEVICE_JOURNAL": "device.journal"}
    made = Commands(broker, "own", capsys, monkeypatch, settings)
    made.works("", "device enrol --user ann")
    made.works("", "aggregate --party central --make-keys --folder .")
    return made


def told(commands: Commands, role: str, words: str, **changed: str) -> str:
    """Return the one sentence of a command whose client has other properties."""
    properties = commands.broker.properties(role) | changed
    given = {name: value for name, value in properties.items() if value}
    changes = {"MURMUREC_KAFKA": json.dumps(given)}
    return replace(commands, changes=changes).refused(role, words)


@pytest.mark.parametrize("role", KINDS)
def test_a_wrong_password_is_one_sentence_of_each_command(commands: Commands, role: str) -> None:
    sentence = told(commands, role, KINDS[role], **{"sasl.password": "wrong"})
    assert "refuses the user name or password: correct sasl.username" in sentence


@pytest.mark.parametrize("role", KINDS)
def test_a_client_without_tls_is_told_so_by_each_command(commands: Commands, role: str) -> None:
    sentence = told(commands, role, KINDS[role], **{"security.protocol": "SASL_PLAINTEXT"})
    assert "expects TLS: set security.protocol" in sentence


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_with_a_login_is_one_sentence(commands: Commands, wrong: str) -> None:
    changed, said = WRONG[wrong]
    assert said in told(commands, "reader", CHECK, **changed)


@pytest.mark.parametrize("protocol", PLAIN_PORTS)
def test_a_wrong_protocol_on_a_port_without_tls_is_one_sentence(
    commands: Commands, protocol: str
) -> None:
    ports = (commands.broker.bootstrap, commands.broker.guarded)
    for port, said in zip(ports, PLAIN_PORTS[protocol], strict=True):
        if said:
            words = f"{CHECK} --bootstrap {port}"
            sentence = told(commands, "reader", words, **{"security.protocol": protocol})
            assert said in sentence, port
