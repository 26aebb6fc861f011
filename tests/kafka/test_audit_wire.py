"""`murmurec audit wire` on a real broker: an honest log passes, a reused number is found."""

from __future__ import annotations

import json

import numpy as np
import pytest

from consumers.audit.observed import Record
from stream_app.cli import run
from stream_app.kafka import clients
from stream_app.wire import Topics
from tests.conftest import Kafka
from tests.consumers.audit.worlds import RR, World, levels

pytestmark = pytest.mark.kafka


def publish(kafka: Kafka, topics: str, records: list[Record]) -> None:
    topic = Topics(topics).ratings
    producer = clients.producer(kafka.connection)
    for record in records:
        producer.produce(
            topic, key=record.key, value=record.value, partition=record.partition,
            timestamp=record.time,
        )  # fmt: skip
    assert producer.flush(30) == 0


def test_the_command_reads_every_topic_and_judges_each_claim(
    kafka: Kafka, topics: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(1)
    devices = [world.device() for _ in range(40)]
    for device in devices:
        items = np.sort(world.rng.choice(200, 30, replace=False).astype(np.uint64))
        world.send(device, items, levels(world.rng, 30))
    publish(kafka, topics, world.records)
    command = ["audit", "wire", "--bootstrap", kafka.bootstrap, "--prefix", topics]
    command += ["--budget", "100", "--allow", RR.id, "--json"]
    assert run(command) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    verdicts = {row["claim"]: row["verdict"] for row in found}
    assert verdicts["rr:5:2: reports follow the claimed channel"] == "ok"
    assert verdicts["replies have one length in bytes and in entries"] == "not testable here"
    reused = World(2)
    reused.send(devices[0], np.arange(3, dtype=np.uint64), levels(reused.rng, 3), seq=1)
    publish(kafka, topics, reused.records)
    assert run(command[:-1]) == 1
    shown = capsys.readouterr()
    assert "violated" in shown.out
    assert "a number is never used again with other bytes" in shown.err


@pytest.mark.thorough
def test_a_log_that_is_longer_than_the_memory_gives_partial_results_and_says_so(
    kafka: Kafka, topics: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world, item = World(3), np.zeros(1, np.uint64)
    for _ in range(4000):
        world.send(world.device(), item, levels(world.rng, 1))
    publish(kafka, topics, world.records)
    command = ["audit", "wire", "--bootstrap", kafka.bootstrap, "--prefix", topics]
    assert run([*command, "--allow", RR.id, "--memory", "1"]) == 0
    shown = capsys.readouterr()
    assert "partial: the log is longer than --memory 1 holds" in shown.out + shown.err
    assert run([*command, "--allow", RR.id, "--memory", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accounts"] in ("1 of 2", "1 of 4")
    assert run([*command, "--allow", RR.id, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accounts"] == "all"
