"""What a worker may not read or write: told in one sentence within seconds, and nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.conftest import Kafka
from tests.faults.brokers import Node, node, password
from tests.faults.conftest import Flow, Proof, another_checkpoint, sentence
from tests.kafka.conftest import Send, Start, ends_of
from tests.streams import Published, events, publish

pytestmark = pytest.mark.kafka

# The least that a worker needs; what may be written or read may be described as well.
RIGHTS = {
    "ratings": ("READ", "DESCRIBE_CONFIGS"),
    "cuts": ("READ", "WRITE", "DESCRIBE_CONFIGS"),
    "state": ("READ", "WRITE", "DESCRIBE_CONFIGS"),
    "items": ("READ",),
    "item-table": ("WRITE",),
    "queries": ("READ",),
    "recommendations": ("WRITE",),
    "rejected": ("WRITE",),
}


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


def refuse(admin: AdminClient, topic: str, operation: str) -> list[AclBinding]:
    """Take one right away and return what it takes to give it back."""
    wanted = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        None,
        None,
        AclOperation[operation],
        AclPermissionType.ALLOW,
    )
    taken: list[AclBinding] = []
    for future in admin.delete_acls([wanted]).values():
        taken += future.result(timeout=10)
    assert taken
    return taken


def give_back(admin: AdminClient, taken: list[AclBinding]) -> None:
    for future in admin.create_acls(taken).values():
        future.result(timeout=10)


def test_the_right_to_write_checkpoints_is_taken_away_and_given_back(
    guarded: Start,
    flow: Flow,
    proof: Proof,
    rng: np.random.Generator,
    admin: AdminClient,
    topics: str,
) -> None:
    """The least rights are enough; without one of them nothing goes on silently."""
    records = [publish(event) for event in events(rng, 700)]
    state_topic = f"{topics}.state.v1"
    worker = guarded()
    with flow(records[:300]):
        another_checkpoint(worker)
    worker.wait_for(ends_of(records[:300]))
    taken = refuse(admin, state_topic, "WRITE")
    with flow(records[300:600]):
        refused = sentence(worker, 15)
    assert state_topic in refused
    assert "right to write" in refused
    give_back(admin, taken)
    worker = guarded()
    with flow(records[600:]):
        another_checkpoint(worker)
    proof(worker.wait_for(ends_of(records)))


@pytest.mark.parametrize(
    ("topic", "operation"),
    [("state", "WRITE"), ("state", "READ"), ("cuts", "WRITE"), ("rejected", "WRITE")],
)
def test_a_worker_that_lacks_a_right_says_which(
    topic: str,
    operation: str,
    own: Node,
    guarded: Start,
    send: Send,
    proof: Proof,
    rng: np.random.Generator,
    admin: AdminClient,
    topics: str,
) -> None:
    clean = [publish(event) for event in events(rng, 50)]
    records = [*clean, Published(1, b"0" * 32, b"poison")]
    send(records)
    name = f"{topics}.{topic}.v1"
    own.allow(ResourceType.TOPIC, name, "DESCRIBE")
    taken = refuse(admin, name, operation)
    refused = sentence(guarded(ready=False), 20)
    assert name in refused
    assert f"right to {operation.lower()}" in refused
    give_back(admin, taken)
    proof(guarded().wait_for(ends_of(records)))


def test_a_topic_that_a_worker_may_not_see_is_not_called_absent(
    guarded: Start, admin: AdminClient, topics: str
) -> None:
    """Kafka lists no topic to those who have no right to it."""
    name = f"{topics}.rejected.v1"
    refuse(admin, name, "WRITE")
    refused = sentence(guarded(ready=False), 20)
    assert name in refused
    assert "right" in refused
    assert "does not exist" not in refused
