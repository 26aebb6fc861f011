"""A `Connection` in place of an address: its properties reach a broker with passwords."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import ResourceType

import murmurec
from stream_app.errors import UserError
from stream_app.wire import Topics
from tests.conftest import Kafka
from tests.faults.brokers import Node, node, password

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with node(tmp_path_factory.mktemp("password") / "broker") as started:
        yield started


@pytest.fixture
def kafka(broker: Node) -> Kafka:
    """The listener without a password, on which the topics are created."""
    return Kafka(broker.bootstrap)


@pytest.mark.thorough
def test_device_and_client_connect_with_a_password(
    tmp_path: Path, broker: Node, topics: str
) -> None:
    broker.allow(ResourceType.TOPIC, Topics(topics).ratings, "WRITE")
    broker.allow(ResourceType.TOPIC, Topics(topics).recommendations, "READ")
    connection = murmurec.Connection(broker.guarded, password())
    with murmurec.Device("ann", tmp_path / "j", prefix=topics).enrol() as device:
        device.rate(1, 5)
        assert device.publish(connection) == 1
        assert device.waiting == 0
    with murmurec.Recommendations(connection, topics):
        pass  # the topic of the answers was found and its ends were read


def test_a_user_without_the_right_to_write_keeps_the_message(
    tmp_path: Path, broker: Node, topics: str
) -> None:
    connection = murmurec.Connection(broker.guarded, password())
    with murmurec.Device("ann", tmp_path / "j", prefix=topics).enrol() as device:
        device.rate(1, 5)
        with pytest.raises(UserError, match="no right to WRITE it"):
            device.publish(connection)
        assert device.waiting == 1
