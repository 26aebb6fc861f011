"""Real workers on a real broker: the same log gives the same bytes whichever worker was killed, and
a bad record stops none."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable

import numpy as np
import pytest
from confluent_kafka import TopicPartition

from stream_app.cli import run
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.deployment import new_replica
from stream_app.kafka import clients
from stream_app.settings import Settings
from stream_app.state.replica import Replica
from stream_app.wire import Cut, Rejection, Topics, decode_many, decode_message, encode_message
from tests.conftest import Kafka
from tests.fixtures.cut_log import cuts
from tests.fixtures.small_worker import opened
from tests.fixtures.streams import Published, events, log, publish, run_of
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import SOON, Send, Start, ends_of

pytestmark = pytest.mark.kafka


@pytest.fixture
def session_seconds() -> float:
    return SOON


Oracle = Callable[..., Replica]


def test_a_worker_has_the_state_of_the_log(
    start: Start,
    send: Send,
    oracle: Oracle,
    rng: np.random.Generator,
    settings: Settings,
    capsys: pytest.CaptureFixture[str],
) -> None:
    records = [publish(e, json=bool(rng.integers(2))) for e in events(rng, 400)]
    worker = start()
    send(records[:200])
    early = worker.wait_for(ends_of(records[:200]))
    send(records[200:])
    state = worker.wait_for(ends_of(records))
    assert state["counts"]["applied"] == 400
    assert state["clock"]
    replica = oracle()
    assert replica.model_digest() == state["model_digest"]
    assert replica.ledger_digest() == state["ledger_digest"]
    assert oracle(early["cut"]).model_digest() == early["model_digest"] != state["model_digest"]
    where = ["--bootstrap", str(settings.bootstrap_servers), "--prefix", settings.topic_prefix]
    assert run(["state", "digest", *where, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model_digest"] == state["model_digest"]
    assert run(["state", "digest", *where, "--at-cut", "100000"]) == 1
    assert "the newest cut" in capsys.readouterr().err


def test_two_workers_agree_and_the_death_of_the_clocks_owner_stops_nothing(
    start: Start, send: Send, oracle: Oracle, rng: np.random.Generator
) -> None:
    records = [publish(event) for event in events(rng, 600)]
    first = start()
    send(records[:200])
    first.wait_for(ends_of(records[:200]))
    second = start()
    send(records[200:400])
    end_offsets = ends_of(records[:400])
    states = [worker.wait_for(end_offsets) for worker in (first, second)]
    assert sorted(state["clock"] for state in states) == [False, True]
    same = {s["cut"]: (s["model_digest"], s["ledger_digest"]) for s in states}
    assert len(same) == 1
    owner, other = (first, second) if states[0]["clock"] else (second, first)
    owner.process.kill()
    owner.process.wait()
    send(records[400:])
    survivor = other.wait_for(ends_of(records))
    assert survivor["clock"]
    again = start().wait_for(ends_of(records))
    assert oracle().model_digest() == survivor["model_digest"] == again["model_digest"]
    assert oracle().ledger_digest() == survivor["ledger_digest"] == again["ledger_digest"]


def test_a_worker_that_is_killed_again_and_again_ends_with_the_same_bytes(
    start: Start, send: Send, oracle: Oracle, rng: np.random.Generator
) -> None:
    records = [publish(event) for event in events(rng, 900)]
    for part in range(3):
        worker = start(ready=part == 0)
        send(records[part * 300 : part * 300 + 150])
        if part == 0:
            worker.wait_for(ends_of(records[:100]))
        worker.process.kill()
        worker.process.wait()
        send(records[part * 300 + 150 : part * 300 + 300])
    state = start().wait_for(ends_of(records))
    replica = oracle()
    assert state["model_digest"] == replica.model_digest()
    assert state["ledger_digest"] == replica.ledger_digest()
    assert state["counts"]["applied"] == 900


@pytest.mark.thorough
def test_a_frozen_owner_that_wakes_up_does_no_harm(
    start: Start, send: Send, oracle: Oracle, rng: np.random.Generator
) -> None:
    """SIGSTOP longer than the session timeout, a new owner, SIGCONT: a zombie clock, and one chain
    of cuts."""
    records = [publish(event) for event in events(rng, 400)]
    first, second = start(), start()
    send(records[:100])
    states = [worker.wait_for(ends_of(records[:100])) for worker in (first, second)]
    owner, other = (first, second) if states[0]["clock"] else (second, first)
    os.kill(owner.process.pid, signal.SIGSTOP)
    send(records[100:300])
    other.wait_for(ends_of(records[:300]))
    os.kill(owner.process.pid, signal.SIGCONT)
    send(records[300:])
    states = [worker.wait_for(ends_of(records)) for worker in (owner, other)]
    assert {s["model_digest"] for s in states} == {oracle().model_digest()}
    assert {s["ledger_digest"] for s in states} == {oracle().ledger_digest()}


@pytest.mark.thorough
def test_a_worker_of_another_design_does_not_join_in(
    start: Start, send: Send, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused by the checkpoint, names the way out, and the first one goes on."""
    records = [publish(event) for event in events(rng, 100)]
    first = start()
    send(records[:50])
    first.wait_for(ends_of(records[:50]))
    until(lambda: first.state()["checkpoint"]["durable_cut"] is not None, "a checkpoint")
    monkeypatch.setenv("MURMUREC_HASH_SEED", "2")
    second = start(ready=False)
    assert second.process.wait(PATIENCE_SECONDS) == 1
    logged = second.log.read_text()
    assert "made with other settings (hash_seed is another there)" in logged
    assert "--rebuild" in logged
    send(records[50:])
    assert first.wait_for(ends_of(records))["counts"]["applied"] == 100


def test_foreign_records_in_the_cut_log_are_ignored(
    start: Start, send: Send, oracle: Oracle, rng: np.random.Generator, kafka: Kafka, topics: str
) -> None:
    records = [publish(event) for event in events(rng, 100)]
    worker = start()
    send(records[:50])
    state = worker.wait_for(ends_of(records[:50]))
    producer = clients.producer(kafka.connection)
    number, end_offsets = state["cut"], tuple(state["positions"])
    far = tuple(end + 10**6 for end in end_offsets)
    for value in (
        b"junk",
        None,
        encode_message(Cut(number, far, 0)),
        encode_message(Cut(number + 5, far, 0)),
        encode_message(Cut(number + 1, far[:2], 0)),
        encode_message(Cut(number + 1, tuple(max(0, end - 1) for end in end_offsets), 0)),
    ):
        producer.produce(Topics(topics).cuts, value=value)
    assert producer.flush(PATIENCE_SECONDS) == 0
    send(records[50:])
    state = worker.wait_for(ends_of(records))
    assert state["model_digest"] == oracle().model_digest()
    assert state["cuts_ignored"] >= 6


def test_poison_is_rejected_and_reported_without_its_payload_while_workers_go_on(
    start: Start,
    send: Send,
    oracle: Oracle,
    rng: np.random.Generator,
    kafka: Kafka,
    topics: str,
    settings: Settings,
) -> None:
    clean = [publish(event) for event in events(rng, 200)]
    secret = b"a-raw-rating-of-a-user"
    poison = [Published(int(rng.integers(4)), b"0" * 32, secret + b"%d" % i) for i in range(20)] + [
        Published(1, None, None),
        Published(2, b"k", b"\x81" * 200_000),
    ]
    mixed = list(clean)
    for i, record in enumerate(poison):
        mixed.insert(10 * i, record)
    worker = start()
    send(mixed)
    state = worker.wait_for(ends_of(mixed))
    assert state["counts"]["applied"] == 200
    assert state["counts"]["rejected"] == len(poison)
    assert sum(state["rejected"].values()) == len(poison)
    assert state["model_digest"] == oracle().model_digest()
    assert state["model_digest"] == without(poison, mixed, cuts(kafka, Topics(topics)), settings)
    reported = rejections(kafka, topics, len(poison))
    assert len({key for key, _ in reported}) == len(poison)
    for key, value in reported:
        rejection = decode_message(Rejection, value)
        assert rejection.key == key
        assert secret not in value
    assert secret not in worker.log.read_bytes()
    assert b"raw-rating" not in worker.get("/metrics")


def without(
    poison: list[Published], mixed: list[Published], chain: list[Cut], settings: Settings
) -> str:
    """Return the model digest of the same rounds with the poison taken out."""
    replica = new_replica(opened(settings))
    before = (0, 0, 0, 0)
    for cut in chain:
        for p, part in enumerate(log(mixed)):
            kept = [r for r in part[before[p] : cut.end_offsets[p]] if r not in poison]
            if kept:
                replica.apply(decode_many(run_of(kept, 0, len(kept), p), replica.spec.intake))
        replica.end_round(cut.number, cut.end_offsets)
        before = cut.end_offsets
    return replica.model_digest()


def rejections(kafka: Kafka, topics: str, count: int) -> list[tuple[bytes, bytes]]:
    """Return the records of the rejected topic, waiting for `count` of them."""
    consumer = clients.consumer(kafka.connection)
    consumer.assign([TopicPartition(Topics(topics).rejected, 0, 0)])
    found: list[tuple[bytes, bytes]] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while len(found) < count and time.monotonic() < deadline:
            for message in consumer.consume(100, 0.2):
                assert message.error() is None
                found.append((message.key(), message.value()))
    finally:
        consumer.close()
    return found


def test_sigterm_ends_a_worker_cleanly_and_soon(start: Start, send: Send) -> None:
    worker = start()
    began = time.monotonic()
    worker.process.terminate()
    assert worker.process.wait(PATIENCE_SECONDS) == 0
    assert time.monotonic() - began < 30.0  # the grace that Kubernetes gives


def test_a_worker_is_not_ready_before_it_has_replayed_the_log(
    start: Start, send: Send, rng: np.random.Generator, kafka: Kafka, topics: str
) -> None:
    """A cut that names records which are not there yet holds the replay open for as long as
    wanted."""
    records = [publish(event) for event in events(rng, 300)]
    send(records[:200])
    end_offsets = ends_of(records)
    producer = clients.producer(kafka.connection)
    producer.produce(Topics(topics).cuts, value=encode_message(Cut(1, tuple(end_offsets), 0)))
    assert producer.flush(PATIENCE_SECONDS) == 0
    worker = start(ready=False)
    found = wait_for_page(worker, "/readyz", "replaying")
    assert found["ready"] is False
    assert "0 of 200 records" in found["waiting_for"]
    assert json.loads(worker.get("/livez")) == {"alive": True}
    with pytest.raises(urllib.error.HTTPError, match="503"):
        urllib.request.urlopen(f"{worker.url}/readyz", timeout=30)
    send(records[200:])
    worker.wait_until_ready()
    assert json.loads(worker.get("/readyz")) == {"ready": True, "waiting_for": None}
    assert worker.wait_for(end_offsets)["cut"] == 1


def wait_for_page(
    worker: WorkerProcess, path: str, text: str, seconds: float = PATIENCE_SECONDS
) -> dict[str, object]:
    """Return a page once it holds this text."""
    deadline, page = time.monotonic() + seconds, b""
    while time.monotonic() < deadline:
        worker.check()
        try:
            page = worker.get(path)
        except OSError:
            continue
        if text.encode() in page:
            found: dict[str, object] = json.loads(page)
            return found
    raise AssertionError(f"{path} never showed {text!r} but {page!r}")


def test_headers_and_timestamps_of_a_record_are_of_no_interest(
    start: Start, rng: np.random.Generator, kafka: Kafka, topics: str
) -> None:
    records = [publish(event) for event in events(rng, 3)]
    producer = clients.producer(kafka.connection)
    headers = [(f"h{i}", b"x") for i in range(2000)]
    for record, timestamp in zip(records, (1, 10**12, 1), strict=True):
        producer.produce(
            Topics(topics).ratings,
            key=record.key,
            value=record.value,
            partition=record.partition,
            headers=headers,
            timestamp=timestamp,
        )
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert start().wait_for(ends_of(records))["counts"]["applied"] == 3


def test_a_record_on_another_keys_partition_is_set_aside(
    start: Start, send: Send, rng: np.random.Generator
) -> None:
    record = publish(events(rng, 1)[0])
    wrong = [Published((record.partition + 1) % 4, record.key, record.value)]
    send(wrong)
    assert start().wait_for(ends_of(wrong))["rejected"] == {"wrong_partition": 1}


def test_a_port_that_is_taken_is_one_sentence(start: Start) -> None:
    first = start()
    port = first.url.rsplit(":", 1)[1]
    second = start("--admin-port", port, ready=False)
    assert second.process.wait(PATIENCE_SECONDS) == 1
    logged = second.log.read_text()
    assert "cannot be served" in logged
    assert "Traceback" not in logged
