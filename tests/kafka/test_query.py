"""Queries over Kafka and over HTTP: their answers, their refusals, and that neither disturbs the
worker."""

from __future__ import annotations

import json
import os
import signal
import time

import msgspec
import numpy as np
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from consumers.recommendations import Recommendations
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.wire import LIST_LENGTH, Query, Topics, encode_message
from tests.conftest import Kafka
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Send, Start, ends_of

pytestmark = pytest.mark.kafka


def test_a_known_user_gets_unseen_items_and_a_stranger_the_popular_ones(
    start: Start,
    send: Send,
    rng: np.random.Generator,
    kafka: Kafka,
    topics: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = events(rng, 300, devices=20, items=40)
    records = [publish(event) for event in made]
    monkeypatch.setenv("MURMUREC_HEAD_ITEMS", "0")  # lists by predicted rating alone
    worker = start("--index", "qolsh")
    send(records)
    state = worker.wait_for(ends_of(records))
    with Recommendations(kafka.bootstrap, topics) as ask:
        device = made[0].device
        rated = {int(i) for e in made if e.device == device for i in e.items}
        best = ask.best(device.hex(), LIST_LENGTH, 10)
        assert set(best.items).isdisjoint(rated)
        assert len(best.items) == 40 - len(rated)
        assert best.method == "factors/qolsh"
        assert best.as_of == state["cut"]
        assert best.privacy == "none"
        assert ask.best(device.hex(), 3, 5).items == best.items[:3]
        stranger = ask.best("0" * 32, 10, 5)
        assert stranger.method == "popular"
        counts = np.bincount(np.concatenate([e.items for e in made]).astype(int))
        assert counts[list(stranger.items)].min() >= np.sort(counts)[-10]
        for k in (0, -1, 10**9, "10", 2.5, True):
            with pytest.raises(ValueError, match="1 to 100"):
                ask.best(device.hex(), k)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="32"):
            ask.best("ann")
    page = json.loads(worker.get(f"/recommendations/{device.hex()}?k=5"))
    assert [row["item"] for row in page["items"]] == list(best.items[:5])
    for path in ("ann", f"{device.hex()}?k=0", f"{device.hex()}?k=x", f"{device.hex()}?k=101"):
        assert "error" in json.loads(worker.get(f"/recommendations/{path}"))


def test_bad_and_late_questions_are_counted_and_not_answered(
    start: Start, send: Send, kafka: Kafka, topics: str
) -> None:
    worker = start()
    producer = clients.producer(kafka.connection, linger_ms=0)
    good = msgspec.to_builtins(Query("0" * 16, "0" * 32, 10, 2**50))
    values = [None, b"", b"\xff" * 100, b"{}", b"[" * 50_000]
    values += [json.dumps(good | {"k": k}).encode() for k in (0, -1, 10**9, "10")]
    values += [json.dumps(good | {"reply_to": "elsewhere"}).encode()]
    for value in values:
        producer.produce(Topics(topics).queries, key=b"f" * 16, value=value)
    late = Query("a" * 16, "0" * 32, 10, int(time.time() * 1000) - 1)
    producer.produce(Topics(topics).queries, key=b"a" * 16, value=encode_message(late))
    assert producer.flush(PATIENCE_SECONDS) == 0
    with Recommendations(kafka.bootstrap, topics) as ask:
        assert ask.best("0" * 32, 5, 10).items == ()
    counted = {"refused": len(values), "expired": 1}

    def outcomes() -> dict[str, float]:
        found = worker.metrics()
        return {name: found.get(f"queries_total{{outcome={name}}}", 0.0) for name in counted}

    until(lambda: outcomes() == counted, f"{counted} in the metrics")


def test_a_flood_of_questions_is_answered_busy_and_survived(
    start: Start, kafka: Kafka, topics: str
) -> None:
    """Everything that was asked is answered, refused as busy, or expired; none of it stops the
    worker."""
    worker = start()
    producer = clients.producer(kafka.connection, linger_ms=50)
    deadline = int((time.time() + PATIENCE_SECONDS) * 1000)
    os.kill(worker.process.pid, signal.SIGSTOP)
    for i in range(3000):
        question = Query(f"{i:016x}", "0" * 32, 10, deadline)
        producer.produce(Topics(topics).queries, key=b"k", value=encode_message(question))
    assert producer.flush(PATIENCE_SECONDS) == 0
    os.kill(worker.process.pid, signal.SIGCONT)
    names = ("answered", "busy", "expired", "refused")

    def outcomes() -> dict[str, float]:
        found = worker.metrics()
        return {name: found[f"queries_total{{outcome={name}}}"] for name in names}

    until(lambda: sum(outcomes().values()) == 3000, "every question has its outcome")
    assert outcomes()["busy"] > 0
    assert outcomes()["answered"] > 0
    with Recommendations(kafka.bootstrap, topics) as ask:
        assert ask.best("0" * 32, 5, 10).method == "popular"


def test_expired_questions_of_an_outage_cost_no_answer(
    start: Start, kafka: Kafka, topics: str
) -> None:
    """One that is not expired is answered, behind 3,000 that are."""
    worker = start()
    producer = clients.producer(kafka.connection, linger_ms=50)
    os.kill(worker.process.pid, signal.SIGSTOP)
    for i in range(3000):
        question = Query(f"{i:016x}", "0" * 32, 10, int(time.time() * 1000))
        producer.produce(Topics(topics).queries, key=b"k", value=encode_message(question))
    live = Query("f" * 16, "0" * 32, 10, int((time.time() + PATIENCE_SECONDS) * 1000))
    producer.produce(Topics(topics).queries, key=b"k", value=encode_message(live))
    assert producer.flush(PATIENCE_SECONDS) == 0
    os.kill(worker.process.pid, signal.SIGCONT)
    wanted = {"expired": 3000, "answered": 1, "busy": 0}

    def outcomes() -> dict[str, float]:
        found = worker.metrics()
        return {name: found[f"queries_total{{outcome={name}}}"] for name in wanted}

    until(lambda: outcomes() == wanted, f"{wanted} in the metrics")
    until(lambda: replies(kafka, topics) == 1, "one reply")


def replies(kafka: Kafka, topics: str) -> int:
    """Return how many replies were written."""
    consumer = clients.consumer(kafka.connection)
    try:
        name = Topics(topics).recommendations
        partitions = consumer.list_topics(name, timeout=10).topics[name].partitions
        return sum(clients.offsets(consumer, TopicPartition(name, p))[1] for p in partitions)
    finally:
        consumer.close()


def test_a_record_that_cannot_be_decompressed_does_not_stop_the_queries(
    start: Start, kafka: Kafka, topics: str
) -> None:
    """Where the topic takes compressed batches under a running worker, 3 kB of them hold 90 MB."""
    worker = start()
    with Recommendations(kafka.bootstrap, topics) as ask:
        assert ask.best("0" * 32, 5, 10).method == "popular"  # the worker has its partitions
    name = Topics(topics).queries
    resource = ConfigResource(ResourceType.TOPIC, name)
    for setting, value in (("compression.type", "producer"), ("max.message.bytes", "1048576")):
        resource.add_incremental_config(
            ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
        )
    admin = clients.admin(kafka.connection)  # kept: what it was asked ends with it
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(timeout=PATIENCE_SECONDS)
    bomb = clients.producer(
        kafka.connection, compression_type="zstd", message_max_bytes=100_000_000
    )
    for partition in range(len(bomb.list_topics(name, timeout=10).topics[name].partitions)):
        bomb.produce(name, value=bytes(90_000_000), partition=partition)
    assert bomb.flush(PATIENCE_SECONDS) == 0
    with Recommendations(kafka.bootstrap, topics) as ask:
        for _ in range(20):  # on every partition
            assert ask.best("0" * 32, 5, 10).method == "popular"
    assert worker.metrics()["queries_total{outcome=refused}"] > 0


def test_a_query_without_a_worker_is_refused_in_one_sentence(kafka: Kafka, topics: str) -> None:
    with Recommendations(kafka.bootstrap, topics) as ask, pytest.raises(UserError, match="readyz"):
        ask.best("0" * 32, 5, 0.2)
    with pytest.raises(UserError, match="topics apply"):
        Recommendations(kafka.bootstrap, "no-such-deployment")
