"""Devices that are evicted, on a real broker: their events, sent again, are stale."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from confluent_kafka import KafkaError

from stream_app.cli import run
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.kafka import clients
from stream_app.kafka.topic_admin import apply, plan
from stream_app.log.cut_clock import accepted_days
from stream_app.state.replica import Replica
from stream_app.wire import EPOCH_SECONDS, Topics
from tests.conftest import Kafka
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.kafka.conftest import Send, Start, ends_of

pytestmark = pytest.mark.kafka
LONG, SHORT = 30 * EPOCH_SECONDS, 60
RETENTION = "MURMUREC_RATINGS_RETENTION_SECONDS"


@pytest.fixture
def dated(kafka: Kafka, topics: str) -> None:
    """Give the topics the configuration of a deployment whose ratings have a retention."""
    admin = clients.admin(kafka.connection)
    table = Topics(topics).table(ratings_retention_seconds=LONG)
    apply(admin, plan(admin, [row for row in table if row.name == Topics(topics).cuts]))


def stop(worker: WorkerProcess) -> None:
    worker.process.terminate()
    assert worker.process.wait(PATIENCE_SECONDS) == 0


def test_a_duplicate_of_an_evicted_device_is_stale(
    kafka: Kafka,
    topics: str,
    dated: None,
    start: Start,
    send: Send,
    oracle: Callable[..., Replica],
    monkeypatch: pytest.MonkeyPatch,
    rng: np.random.Generator,
) -> None:
    """A shorter retention is a day on which the events have become older."""
    today = int(time.time()) // EPOCH_SECONDS
    made = [replace(each, epoch=today) for each in events(rng, 40, devices=8)]
    old = [replace(each, epoch=accepted_days(today, SHORT)[0] - 5) for each in events(rng, 20)]
    first = [publish(each) for each in made + old]
    monkeypatch.setenv(RETENTION, str(LONG))
    worker = start()
    send(first)
    before = worker.wait_for(ends_of(first))
    assert (before["counts"]["applied"], before["rejected"]) == (60, {})
    stop(worker)

    monkeypatch.setenv(RETENTION, str(SHORT))
    worker = start()
    again = [publish(each) for each in old + made[:5]]
    send(again)
    state = worker.wait_for(ends_of([*first, *again]))
    assert state["rejected"] == {"stale": 20}
    assert state["counts"]["applied"] == 60
    assert state["counts"]["duplicate"] == 5, "a device of today is not evicted"
    assert state["devices"] == len({each.device for each in made})
    assert before["devices"] == len({each.device for each in made + old})
    assert state["model_digest"] == oracle().model_digest()
    stop(worker)
    assert run(["state", "verify", "--bootstrap", kafka.bootstrap, "--prefix", topics]) == 0


def test_the_broker_refuses_a_cut_of_a_clock_that_is_far_ahead_or_behind(
    kafka: Kafka, topics: str, dated: None
) -> None:
    producer, failed = clients.producer(kafka.connection), list[KafkaError | None]()
    now = int(time.time() * 1000)
    for ahead in (1800, -36_000, 7200, -180_000):
        producer.produce(
            Topics(topics).cuts,
            value=b"{}",
            timestamp=now + 1000 * ahead,
            on_delivery=lambda error, _: failed.append(error),
        )
        producer.flush(10)
    assert failed[:2] == [None, None]
    for refused in failed[2:]:
        assert refused is not None
        assert refused.code() == KafkaError.INVALID_TIMESTAMP
        assert not refused.retriable()
