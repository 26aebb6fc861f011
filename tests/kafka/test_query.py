"""Queries over Kafka and a gateway: answers, refusals, and that neither disturbs the worker."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np
import pytest
from confluent_kafka import Message, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from consumers.audit.observed import Source
from consumers.audit.topic_reading import read_topics
from consumers.recommendations import Recommendations
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.errors import UserError
from stream_app.kafka import broker_answers as answers
from stream_app.kafka import clients
from stream_app.wire import (
    LIST_LENGTH,
    CatalogueEntry,
    Query,
    Recommendation,
    Status,
    Topics,
    decode_message,
    encode_message,
)
from stream_app.wire.authenticity.sealed_replies import decode_sealed_reply
from tests.conftest import Kafka
from tests.fixtures.gateway_beside import served
from tests.fixtures.given_worker import given_worker
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
    tmp_path: Path,
) -> None:
    made = events(rng, 300, devices=20, items=40)
    records = [publish(event) for event in made]
    monkeypatch.setenv("MURMUREC_TUNING_HEAD_ITEMS", "0")  # lists by predicted rating alone
    monkeypatch.setenv("MURMUREC_TUNING_INDEX", "qolsh")
    worker = start()
    send(records)
    state = worker.wait_for(ends_of(records))
    with Recommendations(kafka.bootstrap, topics) as ask:
        device = made[0].device
        rated = {int(i) for e in made if e.device == device for i in e.items}
        best = ask.best(device.hex(), LIST_LENGTH, PATIENCE_SECONDS)
        assert set(best.items).isdisjoint(rated)
        assert len(best.items) == 40 - len(rated)
        assert best.method == "factors/qolsh"
        assert best.as_of == state["cut"]
        assert best.privacy == "none"
        assert ask.best(device.hex(), 3, PATIENCE_SECONDS).items == best.items[:3]
        stranger = ask.best("0" * 32, 10, PATIENCE_SECONDS)
        assert stranger.method == "popular"
        counts = np.bincount(np.concatenate([e.items for e in made]).astype(int))
        assert counts[list(stranger.items)].min() >= np.sort(counts)[-10]
        for k in (0, -1, 10**9, "10", 2.5, True):
            with pytest.raises(ValueError, match="1 to 100"):
                ask.best(device.hex(), k)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="32"):
            ask.best("ann")
    monkeypatch.setenv("MURMUREC_TOPIC_PREFIX", topics)
    monkeypatch.setenv("MURMUREC_BOOTSTRAP_SERVERS", kafka.bootstrap)
    monkeypatch.chdir(tmp_path)
    rows = [f"{user},{item},{1 + (user + item) % 5}" for user in range(30) for item in range(9)]
    Path("ml-1m.csv").write_text("\n".join(["user,item,rating", *rows]))
    readme = Path(__file__).parents[2] / "README.md"
    (program,) = re.findall(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.S)
    for _ in range(2):
        exec(program.replace("ml-1m.zip", "ml-1m.csv"), {})
    for path in (f"/recommendations/{device.hex()}?k=5", "/similar?item=1"):
        with pytest.raises(urllib.error.HTTPError, match="404"):  # over Kafka alone
            urllib.request.urlopen(worker.url + path, timeout=PATIENCE_SECONDS)


def test_over_a_gateway_a_known_device_and_a_stranger_get_equally_many_bytes(
    start: Start, send: Send, rng: np.random.Generator, kafka: Kafka, topics: str
) -> None:
    made = events(rng, 120, devices=6, items=30)
    device = made[0].device.hex()
    producer, names = clients.producer(kafka.connection), Topics(topics)
    for number in range(30):
        entry = CatalogueEntry(number, "t" * number, ("g" * number,) * (number > 0))
        producer.produce(names.items, key=str(number).encode(), value=encode_message(entry))
    assert producer.flush(PATIENCE_SECONDS) == 0
    records = [publish(event) for event in made]
    worker = start()
    send(records)
    worker.wait_for(ends_of(records))
    with (
        served(kafka.bootstrap, topics) as gateway,
        Recommendations(kafka.bootstrap, topics) as ask,
    ):
        # The gateway has read the catalogue when the item that was put last has its title.
        until(lambda: b"t" * 29 in gateway.reply("/catalogue")[1], "the catalogue")
        for k in (3, 100):
            best = ask.best(device, k, PATIENCE_SECONDS)
            pages = [gateway.reply(f"/recommendations/{user}?k={k}") for user in (device, "0" * 32)]
            assert [status for status, _, _ in pages] == [200, 200]
            known, other = (json.loads(body) for _, body, _ in pages)
            assert [row["item"] for row in known["items"]] == list(best.items)
            assert [row["score"] for row in known["items"]] == list(best.scores)
            assert (known["user"], known["method"]) == (device, best.method)
            assert (known["as_of"], known["privacy"]) == (best.as_of, best.privacy)
            assert known["items"] != other["items"]
            assert {row["title"] for row in known["items"]} == {"t" * item for item in best.items}
            causes = [None if item is None else "t" * int(item) for item in best.because]
            assert [row["because_title"] for row in known["items"]] == causes
            assert len(pages[0][1]) == len(pages[1][1])
            assert headers(pages[0]) == headers(pages[1])
        for visit, given in (("next", ""), ("now", "&for=now")):
            path = f"/recommendations/{device}?k=3{given}"
            body = gateway.reply(path)[1]
            assert json.loads(body)["for"] == visit
            assert len(body) == len(gateway.reply(path.replace(device, "0" * 32))[1])
            assert ask.best(device, 3, PATIENCE_SECONDS, for_=visit).for_ == visit  # type: ignore[arg-type]
        with given_worker(kafka.connection, topics) as client:
            clear = client.ask(worker, device, LIST_LENGTH)  # a query without a key
            assert clear.items[: len(best.items)] == best.items
        records = read_topics(kafka.connection, names)
        raw = [each.value or b"" for each in records if each.source is Source.REPLIES]
        listed = f'"items":[{",".join(map(str, best.items))}'.encode()
        assert {value[:1] for value in raw if listed in value} == {b"{"}
        assert not any(b'"items"' in value for value in raw if value[:1] != b"{")
        sealed = [len(decode_sealed_reply(value).box) for value in raw if value[:1] != b"{"]
        assert len(sealed) >= 10
        assert len(set(sealed)) == 1
        assert gateway.page("/similar?item=1")["for"] is None
        assert gateway.reply("/similar?item=elsewhere")[0] == 409
        assert "no rating of this item" in gateway.page("/similar?item=elsewhere")["error"]
        found = worker.metrics()
        assert found["queries_total{outcome=answered}"] >= 6
        assert found["queries_total{outcome=refused}"] >= 2


def headers(reply: tuple[int, bytes, dict[str, str]]) -> dict[str, str]:
    """Return the headers of a reply but for its time."""
    return {name: value for name, value in reply[2].items() if name != "Date"}


def test_bad_and_late_questions_are_counted_and_refused(
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
        assert ask.best("0" * 32, 5, PATIENCE_SECONDS).items == ()
    counted = {"refused": len(values), "expired": 1}

    def outcomes() -> dict[str, float]:
        found = worker.metrics()
        return {name: found.get(f"queries_total{{outcome={name}}}", 0.0) for name in counted}

    until(lambda: outcomes() == counted, f"{counted} in the metrics")


@pytest.mark.parametrize("lost", [False, True], ids=["in time", "beyond its session"])
def test_every_question_of_a_flood_has_an_answer_or_a_refusal_although_the_worker_was_frozen(
    start: Start, kafka: Kafka, topics: str, lost: bool
) -> None:
    """Also where the worker was taken for dead meanwhile, right after it was ready: it goes on
    with the first question that nobody has read."""
    worker = start(session_seconds=1.0 if lost else 6.0)
    os.kill(worker.process.pid, signal.SIGSTOP)
    asked = ask_all(kafka, topics, 3000)
    if lost:
        until(lambda: members(kafka, topics) == 0, "the broker takes the worker for dead")
    with closing(Replies(kafka, topics)) as replies:
        os.kill(worker.process.pid, signal.SIGCONT)
        until(lambda: asked <= replies.statuses().keys(), "a reply to every question")
    assert set(replies.found.values()) == {Status.OK, Status.BUSY}
    with Recommendations(kafka.bootstrap, topics) as ask:
        assert ask.best("0" * 32, 5, PATIENCE_SECONDS).method == "popular"


@pytest.mark.parametrize("named", [(), ("--instance", "w")], ids=["dynamic", "static"])
def test_a_worker_that_is_ready_answers_the_next_question(
    start: Start, kafka: Kafka, topics: str, named: tuple[str, ...]
) -> None:
    """On every partition, and so does the worker that follows one that was killed."""
    with given_worker(kafka.connection, topics) as client:
        for _ in range(2):
            worker = start(*named, session_seconds=1.0)
            for partition in client.partitions:
                assert client.on(partition, PATIENCE_SECONDS) is not None
            worker.process.kill()


def test_a_worker_that_leaves_with_questions_waiting_and_its_successor_answer_all(
    start: Start, kafka: Kafka, topics: str
) -> None:
    """The questions come while it is frozen, and so does the request to end. It leaves its place
    free at once although it has a name."""
    worker = start("--instance", "w")
    os.kill(worker.process.pid, signal.SIGSTOP)
    asked = ask_all(kafka, topics, 200)
    with closing(Replies(kafka, topics)) as replies:
        worker.process.terminate()
        os.kill(worker.process.pid, signal.SIGCONT)
        assert worker.process.wait(PATIENCE_SECONDS) == 0
        assert members(kafka, topics) == 0
        start()
        until(lambda: asked <= replies.statuses().keys(), "a reply to every question")
    assert set(replies.found.values()) == {Status.OK}


def ask_all(kafka: Kafka, topics: str, count: int) -> set[str]:
    """Write questions to one partition; return their ids."""
    asked = {f"{i:016x}" for i in range(count)}
    deadline = int((time.time() + PATIENCE_SECONDS) * 1000)
    producer = clients.producer(kafka.connection, linger_ms=50)
    for name in sorted(asked):
        question = Query(name, "0" * 32, 10, deadline)
        producer.produce(Topics(topics).queries, key=b"k", value=encode_message(question))
    assert producer.flush(PATIENCE_SECONDS) == 0
    return asked


class Replies:
    """The status of every reply from now on, by the id of its question."""

    def __init__(self, kafka: Kafka, topics: str) -> None:
        self._consumer = clients.consumer(kafka.connection)
        self._consumer.assign(answers.ends(self._consumer, Topics(topics).recommendations))
        self.found: dict[str, Status] = {}

    def statuses(self) -> dict[str, Status]:
        """Return what has come by now."""
        for message in self._consumer.consume(1000, 0.2):
            reply = decode_message(Recommendation, message.value())
            self.found[reply.id] = reply.status
        return self.found

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()


def members(kafka: Kafka, topics: str) -> int:
    """Return how many workers the group of the queries has."""
    group = f"{topics}-queries"
    admin = clients.admin(kafka.connection)  # kept: what it was asked ends with it
    found = admin.describe_consumer_groups([group])
    return len(found[group].result(timeout=PATIENCE_SECONDS).members)


def test_expired_questions_of_an_outage_cost_no_answer_but_have_a_reply(
    start: Start, kafka: Kafka, topics: str
) -> None:
    """One that is not expired is answered, behind 3,000 that are."""
    worker = start()
    before = outcomes(worker)
    producer = clients.producer(kafka.connection, linger_ms=50)
    os.kill(worker.process.pid, signal.SIGSTOP)
    for i in range(3000):
        question = Query(f"{i:016x}", "0" * 32, 10, int(time.time() * 1000))
        producer.produce(Topics(topics).queries, key=b"k", value=encode_message(question))
    live = Query("f" * 16, "0" * 32, 10, int((time.time() + PATIENCE_SECONDS) * 1000))
    producer.produce(Topics(topics).queries, key=b"k", value=encode_message(live))
    assert producer.flush(PATIENCE_SECONDS) == 0
    os.kill(worker.process.pid, signal.SIGCONT)
    wanted = before | {"expired": before["expired"] + 3000, "answered": before["answered"] + 1}
    until(lambda: outcomes(worker) == wanted, f"{wanted} in the metrics")
    until(lambda: replies(kafka, topics) == wanted["answered"] + 3000, "a reply to each")


def outcomes(worker: WorkerProcess) -> dict[str, float]:
    """Return how many queries had each outcome."""
    found = worker.metrics()
    names = ("answered", "busy", "expired", "refused")
    return {name: found[f"queries_total{{outcome={name}}}"] for name in names}


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
        # The worker has its partitions.
        assert ask.best("0" * 32, 5, PATIENCE_SECONDS).method == "popular"
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
    awaited = set(bomb.list_topics(name, timeout=PATIENCE_SECONDS).topics[name].partitions)

    def delivered(error: object, message: Message) -> None:
        if error is None:
            awaited.discard(message.partition())

    def everywhere() -> bool:  # once the broker has taken up the settings
        for partition in awaited:
            bomb.produce(name, value=bytes(90_000_000), partition=partition, on_delivery=delivered)
        assert bomb.flush(PATIENCE_SECONDS) == 0
        return not awaited

    until(everywhere, "a batch of 90 MB on every partition")
    with Recommendations(kafka.bootstrap, topics) as ask:
        for _ in range(20):  # on every partition
            assert ask.best("0" * 32, 5, PATIENCE_SECONDS).method == "popular"
    assert worker.metrics()["queries_total{outcome=refused}"] > 0


def test_a_query_without_a_worker_is_refused_in_one_sentence(kafka: Kafka, topics: str) -> None:
    with Recommendations(kafka.bootstrap, topics) as ask, pytest.raises(UserError, match="readyz"):
        ask.best("0" * 32, 5, 0.2)
    with pytest.raises(UserError, match="topics apply"):
        Recommendations(kafka.bootstrap, "no-such-deployment")
