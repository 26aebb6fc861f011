"""Fixtures of a module that kills its broker: one of its own, which lives again after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import Kafka
from tests.faults.brokers import Node, node


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with node(tmp_path_factory.mktemp("own") / "broker") as made:
        yield made


@pytest.fixture
def kafka(own: Node) -> Kafka:
    """Give the module's own broker."""
    own.start()
    return Kafka(own.bootstrap)


@pytest.fixture
def broker(own: Node, topics: str) -> Iterator[Node]:
    """Give the broker to a test that kills it; it lives again when the topics are deleted."""
    yield own
    own.start()
