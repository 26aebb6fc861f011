"""Topics that a worker may not read or write: named in one sentence within seconds; no loss."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import ResourceType

from consumers.recommendations import Recommendations
from producers.journal import Journal, Message
from producers.last_seen import newest_seqs
from stream_app.aggregation.coordinator import Coordinator
from stream_app.aggregation.round_topics import ContributionTopic, RoundTopic
from stream_app.errors import UserError
from stream_app.kafka import acls as rights
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_checks import check_campaigns
from stream_app.operations.watching.examination import check_topics
from stream_app.settings import load
from stream_app.wire import Topics
from stream_app.wire.signatures import Signatures
from tests.conftest import Kafka
from tests.faults.brokers import Node, node, password
from tests.faults.conftest import Flow, Proof, another_checkpoint, configure, sentence
from tests.fixtures.attacked import launch
from tests.fixtures.gateways import body, running
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import until
from tests.kafka.conftest import Send, Start, ends_of
from tests.stream_app.wire.campaigns.plans import campaign

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

# The least that a worker needs; what may be written or read may be described as well.
RIGHTS = {
    "ratings": ("READ", "DESCRIBE_CONFIGS"),
    "cuts": ("READ", "WRITE", "DESCRIBE_CONFIGS"),
    "state": ("READ", "WRITE", "DESCRIBE_CONFIGS"),
    "items": ("READ", "DESCRIBE_CONFIGS"),
    "item-table": ("WRITE", "DESCRIBE_CONFIGS"),
    "item-links": ("READ", "WRITE", "DESCRIBE_CONFIGS"),
    "queries": ("READ", "DESCRIBE_CONFIGS"),
    "recommendations": ("WRITE", "DESCRIBE_CONFIGS"),
    "rejected": ("WRITE", "DESCRIBE_CONFIGS"),
}
NEEDED = ("READ", "WRITE")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with node(tmp_path_factory.mktemp("rights") / "broker") as made:
        yield made


@pytest.fixture
def kafka(own: Node) -> Kafka:
    """Give the listener of the one who may do everything."""
    return Kafka(own.bootstrap)


@pytest.fixture
def guarded(own: Node, topics: str, start: Start, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Give a function that starts a worker as the user who has `RIGHTS`."""
    for topic, operations in RIGHTS.items():
        own.allow(ResourceType.TOPIC, f"{topics}.{topic}.v1", *operations)
    own.allow(ResourceType.GROUP, f"{topics}*", "READ")

    def started(*arguments: str, ready: bool = True) -> object:
        with monkeypatch.context() as patch:
            patch.setenv("MURMUREC_KAFKA", json.dumps(password()))
            return start("--bootstrap", own.guarded, *arguments, ready=ready)

    return started  # type: ignore[return-value]


def test_rights_to_write_are_taken_away_under_a_worker_and_given_back(
    own: Node,
    guarded: Start,
    flow: Flow,
    proof: Proof,
    rng: np.random.Generator,
    topics: str,
) -> None:
    """`RIGHTS` are enough; without one of them nothing goes on silently, and nothing is lost."""
    records = [publish(event) for event in events(rng, 900)]
    parts = iter((records[:150], records[150:450], records[450:600], records[600:900]))
    for name in (f"{topics}.state.v1", f"{topics}.cuts.v1"):
        worker = guarded()
        with flow(next(parts)):
            another_checkpoint(worker)
        taken = own.take(ResourceType.TOPIC, name, "WRITE")
        with flow(next(parts)):
            refused = sentence(worker)
        assert name in refused
        assert "no right to WRITE it" in refused
        own.grant(taken)
    proof(guarded().wait_for(ends_of(records)))


def test_a_topic_that_a_worker_may_not_see_is_not_called_absent(
    own: Node, guarded: Start, names: Topics
) -> None:
    """Kafka lists no topic to those who have no right to it."""
    own.take(ResourceType.TOPIC, names.rejected, "WRITE")
    refused = sentence(guarded(ready=False))
    assert f"topic {names.rejected}: this user has no right to WRITE it" in refused


@pytest.mark.parametrize("topic", ["item-links", "rejected"])
def test_a_topic_that_expands_is_found_under_the_rights_of_a_worker(
    own: Node, topics: str, names: Topics, topic: str
) -> None:
    """It is seen or named as a missing right, never passed over."""
    for each, operations in RIGHTS.items():
        own.allow(ResourceType.TOPIC, f"{topics}.{each}.v1", *operations)
    name, settings = f"{topics}.{topic}.v1", load(topic_prefix=topics, partitions=4)
    used, guarded = rights.of_role("worker", names), Connection(own.guarded, password())
    check_topics(guarded, settings, used)
    configure(clients.admin(Connection(own.bootstrap)), name, "compression.type", "zstd")
    with pytest.raises(UserError, match=f"{name} has compression.type zstd"):
        check_topics(guarded, settings, used)
    own.take(ResourceType.TOPIC, name, "DESCRIBE_CONFIGS")
    with pytest.raises(UserError, match=f"{name}: this user has no right to DESCRIBE_CONFIGS"):
        check_topics(guarded, settings, used)


def test_a_group_that_a_worker_may_not_join_is_named(
    own: Node, guarded: Start, topics: str
) -> None:
    own.take(ResourceType.GROUP, topics, "READ")
    refused = sentence(guarded(ready=False))
    assert f"group {topics}" in refused
    assert "right" in refused


# The least that a party of a campaign needs.
PARTY_RIGHTS = {
    "contributions": ("READ", "DESCRIBE_CONFIGS"),
    "rounds": ("READ", "WRITE", "DESCRIBE_CONFIGS"),
}


def test_a_device_needs_no_right_to_see_configurations(
    own: Node, topics: str, names: Topics
) -> None:
    own.allow(ResourceType.TOPIC, f"{topics}.rounds.v1", "READ")
    own.allow(ResourceType.TOPIC, f"{topics}.contributions.v1", "WRITE")
    connection = Connection(own.guarded, password())
    check_campaigns(connection, names, device=True)
    with pytest.raises(UserError, match="no right to DESCRIBE_CONFIGS"):
        check_campaigns(connection, names)


def test_each_right_that_an_aggregator_lacks_is_named(
    own: Node, topics: str, names: Topics
) -> None:
    """With `PARTY_RIGHTS` a party reads and writes; without one of them it is refused."""
    for topic, operations in PARTY_RIGHTS.items():
        own.allow(ResourceType.TOPIC, f"{topics}.{topic}.v1", *operations)
    own.allow(ResourceType.GROUP, f"{topics}*", "READ")
    connection, wanted = (
        Connection(own.guarded, password()),
        rights.of_role("aggregator", names, ["campaigns"]),
    )
    rights.check(connection, wanted, "aggregator")
    check_campaigns(connection, names)
    log = RoundTopic(connection, names.rounds)
    contributions = ContributionTopic(connection, names.contributions)
    Coordinator(log, contributions).begin(campaign())
    assert len(contributions.ends) == 4
    log.close()
    contributions.close()
    for topic, operation in (("contributions", "READ"), ("rounds", "READ"), ("rounds", "WRITE")):
        name = f"{topics}.{topic}.v1"
        own.allow(ResourceType.TOPIC, name, "DESCRIBE")
        taken = own.take(ResourceType.TOPIC, name, operation)
        sentence = f"{name}: this user has no right to {operation} it.*--role aggregator"
        with pytest.raises(UserError, match=sentence):
            rights.check(connection, wanted, "aggregator")
        own.grant(taken)


# The least that a gateway needs; it may not read ratings.
GATEWAY_RIGHTS = {
    "ratings": "WRITE",
    "queries": "WRITE",
    "recommendations": "READ",
    "items": "READ",
    "item-links": "READ",
}


def test_a_gateway_is_ready_with_its_rights_and_names_each_that_it_lacks(
    own: Node, topics: str, names: Topics
) -> None:
    for topic, operation in GATEWAY_RIGHTS.items():
        own.allow(ResourceType.TOPIC, f"{topics}.{topic}.v1", operation)
    connection, wanted = Connection(own.guarded, password()), rights.of_role("gateway", names)
    rights.check(connection, wanted, "gateway")

    async def ready() -> None:
        async with running(own.guarded, topics, kafka=password()) as at:
            await at.ready()
            assert (await at.post(body()))[0] == 202

    asyncio.run(ready())
    for topic, operation in GATEWAY_RIGHTS.items():
        name = f"{topics}.{topic}.v1"
        own.allow(ResourceType.TOPIC, name, "DESCRIBE")
        taken = own.take(ResourceType.TOPIC, name, operation)
        sentence = f"{name}: this user has no right to {operation} it.*--role gateway"
        with pytest.raises(UserError, match=sentence):
            rights.check(connection, wanted, "gateway")
        own.grant(taken)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("topic", "operation"),
    [("ratings", "READ"), ("cuts", "READ"), ("queries", "READ")],
)
def test_rights_to_read_that_a_running_worker_loses_are_named(
    topic: str,
    operation: str,
    own: Node,
    guarded: Start,
    send: Send,
    proof: Proof,
    rng: np.random.Generator,
    topics: str,
) -> None:
    records = [publish(event) for event in events(rng, 200)]
    worker = guarded()
    send(records[:100])
    worker.wait_for(ends_of(records[:100]))
    name = f"{topics}.{topic}.v1"
    taken = own.take(ResourceType.TOPIC, name, operation)
    refused = sentence(worker)
    assert name in refused
    assert "no right to READ it" in refused
    own.grant(taken)
    worker = guarded()
    send(records[100:])
    proof(worker.wait_for(ends_of(records)))


def test_a_device_needs_to_write_ratings_and_a_reader_to_ask_and_to_read_answers(
    own: Node, start: Start, names: Topics, rng: np.random.Generator
) -> None:
    """Neither needs a right to a group, and neither can read what the other devices sent."""
    client = Connection(own.guarded, password())
    start()
    own.allow(ResourceType.TOPIC, names.ratings, "WRITE")
    sent = launch(client, names.ratings, [publish(event) for event in events(rng, 20)], {})
    assert (sent.accepted, sent.refused) == (20, 0)
    own.allow(ResourceType.TOPIC, names.queries, "WRITE")
    own.allow(ResourceType.TOPIC, names.recommendations, "READ")
    with Recommendations(client, names.prefix) as ask:
        assert ask.best("0" * 32, 5, 30).method == "popular"
    with pytest.raises(UserError, match=names.cuts):
        rights.check(client, {names.cuts: rights.of_role("worker", names)[names.cuts]})
    consumer = clients.consumer(client)
    consumer.assign([TopicPartition(names.ratings, p, 0) for p in range(4)])
    codes = set()

    def refused() -> bool:
        for message in consumer.consume(10, 0.1):
            error = message.error()
            assert error is not None, "a device read what others sent"
            codes.add(error.code())
        return KafkaError.TOPIC_AUTHORIZATION_FAILED in codes

    until(refused, "the broker refuses the ratings")
    consumer.close()


def test_a_device_that_may_write_ratings_and_not_read_them_is_not_compared_and_goes_on(
    own: Node, topics: str, tmp_path: Path
) -> None:
    name = f"{topics}.ratings.v1"
    own.allow(ResourceType.TOPIC, name, "WRITE")
    device, value = bytes(16), b'{"seq": 7}'
    with Journal.open(tmp_path / "journal") as journal:
        message = Message(1, device, 7, name, value)
        writer = clients.producer(Connection(own.guarded, password()))
        writer.produce(name, key=message.key, value=value, headers=journal.headers(message))
        assert writer.flush(20) == 0
        owners, as_device = {device: journal}, Connection(own.guarded, password())
        assert newest_seqs(as_device, name, 4, owners, Signatures(name, False)) is None
        own.allow(ResourceType.TOPIC, name, "READ")
        own.allow(ResourceType.GROUP, f"{topics}*", "READ")
        assert newest_seqs(as_device, name, 4, owners, Signatures(name, False)) == {
            device: (7, value)
        }
