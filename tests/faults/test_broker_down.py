"""A broker that dies and comes back: workers wait, answer meanwhile, and go on where they were."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

from consumers.recommendations import Recommendations, RecommendedItems
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.errors import UserError
from tests.faults.brokers import Node
from tests.faults.conftest import Flow, Proof, another_checkpoint, apply_parts, stop
from tests.faults.own_broker import broker, kafka, own
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Send, Start, ends_of

__all__ = ["broker", "kafka", "own"]  # fixtures
pytestmark = [pytest.mark.kafka, pytest.mark.thorough]
# Kubernetes kills what has not ended so long after SIGTERM; a quiet machine needs a fifth of it.
_GRACE_SECONDS = 30.0


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let librdkafka keep what it cannot send for 3 s instead of five minutes, and give it
    something to send while the broker is away."""
    monkeypatch.setenv("MURMUREC_KAFKA", '{"message.timeout.ms": "3000"}')
    monkeypatch.setenv("MURMUREC_TUNING_ITEM_TABLE_SECONDS", "2")


def test_a_broker_dies_while_ratings_flow_and_checkpoints_are_written_and_then_for_long(
    impatient: None,
    broker: Node,
    start: Start,
    flow: Flow,
    proof: Proof,
    rng: np.random.Generator,
    topics: str,
) -> None:
    """Nothing is lost without a restart, even after longer than the session of 6 s: it reports
    that Kafka does not answer, and answers queries over Kafka afterwards."""
    records = [publish(event) for event in events(rng, 500)]
    worker = start()
    with flow(records[:250]):
        another_checkpoint(worker)
        broker.kill()
        broker.start()
        another_checkpoint(worker)
    with flow(records[250:]):
        another_checkpoint(worker)
        broker.kill()
        until(lambda: waits_for(worker) == "Kafka does not answer", "/readyz reports it")
        assert "ready" in worker.metrics()  # the admin port answers
        broker.start()
        another_checkpoint(worker)
    state = worker.wait_for(ends_of(records))
    worker.wait_until_ready()
    assert state["counts"]["applied"] == len(records)
    proof(state)
    assert records[0].key is not None
    best = answered(broker, topics, records[0].key.decode())
    assert best.items
    assert best.as_of >= state["cut"]
    broker.kill()
    began = time.monotonic()
    stop(worker)
    assert time.monotonic() - began < _GRACE_SECONDS


def answered(broker: Node, topics: str, user: str) -> RecommendedItems:
    """Return the first answer. A query is asked again, as a client does: one that is sent before
    the worker's group is back is not read, and replies are kept for 3 s here."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    with Recommendations(broker.bootstrap, topics) as ask:
        while True:
            try:
                return ask.best(user, 10, 5.0)
            except UserError:
                if time.monotonic() > deadline:
                    raise


@pytest.mark.nightly
def test_a_worker_outlives_a_broker_that_is_away_for_half_a_minute(
    impatient: None, broker: Node, start: Start, send: Send, proof: Proof, rng: np.random.Generator
) -> None:
    records = [publish(event) for event in events(rng, 300)]
    worker = start()
    apply_parts(worker, send, records, 150)
    broker.kill()
    killed = time.monotonic()
    until(lambda: time.monotonic() - killed > 30, "half a minute goes by")
    assert waits_for(worker) == "Kafka does not answer"
    broker.start()
    worker.wait_until_ready()
    send(records[150:])
    proof(worker.wait_for(ends_of(records)))


def waits_for(worker: WorkerProcess) -> object:
    """Return what the worker waits for, by its /readyz."""
    worker.check()
    return json.loads(worker.get("/readyz"))["waiting_for"]
