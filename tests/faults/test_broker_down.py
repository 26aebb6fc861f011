"""A broker that dies and comes back: workers wait, answer meanwhile, and go on where they were."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import numpy as np
import pytest

from stream_app.cli.demo.worker import Worker
from tests.conftest import Kafka
from tests.faults.brokers import Node, node, until
from tests.faults.conftest import Flow, Proof, another_checkpoint, stop
from tests.kafka.conftest import Send, Start, ends_of
from tests.streams import events, publish

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with node(tmp_path_factory.mktemp("down") / "broker") as made:
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


def test_a_broker_that_is_killed_twice_while_ratings_flow_and_checkpoints_are_written(
    broker: Node, start: Start, flow: Flow, proof: Proof, rng: np.random.Generator
) -> None:
    records = [publish(event) for event in events(rng, 700)]
    worker = start()
    for part in (records[:350], records[350:]):
        with flow(part):
            another_checkpoint(worker)
            broker.kill()
            broker.start()
            another_checkpoint(worker)
    state = worker.wait_for(ends_of(records), 30)
    assert state["counts"]["applied"] == len(records)
    proof(state)
    worker.process.kill()
    worker.process.wait()
    again = start().wait_for(ends_of(records))
    assert again["model_digest"] == state["model_digest"]
    assert again["counts"] == state["counts"]


@pytest.mark.parametrize("seconds", [0.0, pytest.param(30.0, marks=pytest.mark.slow)])
def test_a_worker_outlives_a_broker_that_is_away_longer_than_the_session(
    seconds: float,
    broker: Node,
    start: Start,
    send: Send,
    proof: Proof,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Away until /readyz tells it, which takes longer than the group's session of 6 s, and than
    librdkafka keeps what it cannot send: here 3 s instead of five minutes."""
    monkeypatch.setenv("MURMUREC_KAFKA", '{"message.timeout.ms": "3000"}')
    monkeypatch.setenv("MURMUREC_ITEM_TABLE_SECONDS", "2")
    records = [publish(event) for event in events(rng, 300)]
    worker = start()
    send(records[:150])
    worker.wait_for(ends_of(records[:150]))
    broker.kill()
    killed = time.monotonic()
    until(lambda: waits_for(worker) == "Kafka does not answer", 30, "/readyz says so")
    until(lambda: time.monotonic() - killed >= seconds, 60, "time goes by")
    assert answers(worker, records[0].key)
    broker.start()
    worker.wait_until_ready()
    send(records[150:])
    proof(worker.wait_for(ends_of(records), 30))
    broker.kill()
    began = time.monotonic()
    stop(worker)
    assert time.monotonic() - began < 5.5


def waits_for(worker: Worker) -> object:
    """Return what the worker says that it waits for."""
    worker.check()
    return json.loads(worker.get("/readyz"))["waiting_for"]


def answers(worker: Worker, device: bytes | None) -> bool:
    """Return whether the query view answers from what the worker holds."""
    worker.check()
    assert device is not None
    return bool(json.loads(worker.get(f"/recommendations/{device.decode()}"))["items"])
