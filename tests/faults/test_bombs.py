"""Batches of a few hundred bytes that expand to megabytes, from one who may only write ratings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from consumers.recommendations import Recommendations
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.deployment import Deployment
from stream_app.kafka import clients, topic_follower
from stream_app.kafka.failures.unreadable import readable_from
from stream_app.replay.follower import Follower
from stream_app.serving.catalogue import Catalogue
from stream_app.wire import (
    CatalogueEntry,
    Cut,
    Rejection,
    Topics,
    decode_message,
    encode_message,
    key,
)
from stream_app.wire.reasons import REASON_CODE, Reason
from stream_app.wire.topics import PLAIN
from tests.conftest import Kafka
from tests.faults.conftest import Command, Oracle, Proof, configure, digests, sentence, stop
from tests.fixtures.replicas import SMALL
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Send, Start, ends_of

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

Bomb = Callable[..., set[str]]
_LOOSE = {"compression.type": "producer", "max.message.bytes": "1048588"}
_MB = 1_000_000


@pytest.fixture
def bomb(kafka: Kafka, names: Topics) -> Bomb:
    """Give a function that sends batches of zeros, and returns the errors of the broker."""

    def sent(
        partition: int,
        size: int,
        records: int = 1,
        batches: int = 1,
        codec: str = "zstd",
        topic: str = names.ratings,
    ) -> set[str]:
        producer = clients.producer(
            kafka.connection,
            linger_ms=60_000,  # until `flush`: one batch however slow the machine
            batch_size=2_000 * _MB,
            message_max_bytes=1_000 * _MB,
            compression_type=codec,
            batch_num_messages=1_000_000,
            queue_buffering_max_messages=1_000_000,
        )
        errors: set[str] = set()

        def delivered(error: KafkaError | None, _: object) -> None:
            if error is not None:
                errors.add(error.name())

        for _ in range(batches):
            for _ in range(records):
                producer.produce(
                    topic,
                    key=b"0" * 32,
                    value=bytes(size),
                    partition=partition,
                    on_delivery=delivered,
                )
            assert producer.flush(PATIENCE_SECONDS) == 0
        return errors

    return sent


@pytest.fixture
def loosened(admin: AdminClient, names: Topics) -> Callable[..., object]:
    """Give a block during which a topic, by default that of ratings, takes whatever is sent."""

    @contextmanager
    def loose(topic: str = names.ratings) -> Iterator[None]:
        for name, value in _LOOSE.items():
            configure(admin, topic, name, value)
        try:
            yield
        finally:
            for name, value in PLAIN.items():
                configure(admin, topic, name, value)

    return loose


def rejections(kafka: Kafka, names: Topics) -> dict[tuple[int, int], str]:
    """Return (partition, offset) -> reason of every rejected record."""
    found = {}
    for message in topic_follower.records(kafka.connection, names.rejected):
        rejection = decode_message(Rejection, message.value())
        found[rejection.partition, rejection.offset] = rejection.reason
    return found


def most_memory(worker: WorkerProcess) -> int:
    """Return the most bytes of memory that a worker has held."""
    status = Path(f"/proc/{worker.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line) << 10


@pytest.mark.parametrize(
    ("size", "records", "codec"),
    [(20 * _MB, 1, "zstd"), (_MB, 4, "zstd"), (_MB, 1, "gzip")],  # all fit the heap of a broker
)
def test_the_broker_refuses_a_batch_that_expands(
    bomb: Bomb, size: int, records: int, codec: str
) -> None:
    assert bomb(0, size, records, codec=codec) == {"MSG_SIZE_TOO_LARGE"}


def test_the_largest_event_and_full_batches_are_taken_however_well_they_compress(
    bomb: Bomb, kafka: Kafka, names: Topics
) -> None:
    assert bomb(0, 128 * 1024) == set()
    producer = clients.producer(kafka.connection, linger_ms=1000)
    failed: list[object] = []
    for _ in range(2000):  # 2 MB in batches of the producer's own size
        producer.produce(
            names.ratings,
            key=b"0" * 32,
            value=bytes(1000),
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert not failed


def test_batches_that_expand_are_rejected_record_by_record_and_end_no_worker(
    start: Start,
    send: Send,
    bomb: Bomb,
    loosened: Callable[[], contextmanager[None]],
    kafka: Kafka,
    names: Topics,
    proof: Proof,
    oracle: Oracle,
    command: Command,
    rng: np.random.Generator,
) -> None:
    records = [publish(event) for event in events(rng, 600)]
    first, second, third = records[:200], records[200:400], records[400:]
    bombs = (1, 100, 41, 0)  # of each partition
    worker = start()
    send(first)
    usual = most_memory(worker)
    with loosened():
        until(lambda: b"compression.type producer" in worker.get("/readyz"), "it is not ready")
        at = ends_of(first)
        assert bomb(0, 90 * _MB) == set()
        assert bomb(1, 20 * _MB, batches=100) == set()
        assert bomb(2, _MB, records=37) == set()
        send(second)
        assert bomb(2, 5 * _MB, records=2, batches=2) == set()
        worker.wait_for(np.add(ends_of(records[:400]), bombs).tolist())
    worker.wait_until_ready()
    send(third)
    ends = np.add(ends_of(records), bombs).tolist()
    state = worker.wait_for(ends)
    assert most_memory(worker) < usual + 100 * _MB
    proof(state)
    later = ends_of(second)[2] + at[2] + 37
    unreadable = {(0, at[0])} | {(1, at[1] + i) for i in range(100)}
    unreadable |= {(2, at[2] + i) for i in range(37)} | {(2, later + i) for i in range(4)}
    assert rejections(kafka, names) == dict.fromkeys(unreadable, "unreadable")
    stop(worker)
    for again in (["state", "rebuild"], ["state", "digest"]):
        code, output = command(*again)
        assert code == 0, output
    rebuilt = start("--rebuild")
    found = rebuilt.wait_for(ends)
    assert (found["model_digest"], found["ledger_digest"]) == digests(oracle(found["cut"]))
    assert most_memory(rebuilt) < usual + 100 * _MB


def test_a_batch_of_very_many_unreadable_records_is_passed_over_piece_by_piece(
    bomb: Bomb, loosened: Callable[[], contextmanager[None]], kafka: Kafka, names: Topics
) -> None:
    with loosened():
        assert bomb(0, 60, records=90_000) == set()
    places = [0]
    while places[-1] < 90_000:
        place = TopicPartition(names.ratings, 0, places[-1])
        places.append(readable_from(kafka.connection, "test-follower", place, most=20_000))
        assert 0 < places[-1] - places[-2] <= 40_000
    assert places[-1] == 90_000
    assert len(places) > 3


@pytest.mark.parametrize("name", ["ratings", "items"])
def test_a_reader_goes_on_after_a_batch_of_very_many_unreadable_records(
    bomb: Bomb,
    loosened: Callable[..., contextmanager[None]],
    kafka: Kafka,
    names: Topics,
    name: str,
) -> None:
    sent, topic = 140_000, getattr(names, name)
    with loosened(topic):
        assert bomb(0, 40, records=sent, topic=topic) == set()
    producer = clients.producer(kafka.connection)
    entry = encode_message(CatalogueEntry("film", "A film"))
    producer.produce(names.items, key=b"film", value=entry, partition=0)
    wanted = sent if name == "ratings" else 0
    for number in range(1, wanted // 2000 + 1):  # a reader pauses where there is no cut
        producer.produce(names.cuts, value=encode_message(Cut(number, (2000 * number, 0, 0, 0), 1)))
    assert producer.flush(PATIENCE_SECONDS) == 0
    catalogue, rejected = Catalogue(), 0

    def done() -> bool:
        nonlocal rejected
        for piece in log.poll():
            if piece.batch is not None:
                assert set(piece.batch.reasons) == {REASON_CODE[Reason.UNREADABLE]}
                rejected += piece.batch.records
        return rejected == wanted and catalogue.title(key("film")) == "A film"

    deployment = Deployment(kafka.connection, names, SMALL)
    with closing(Follower(deployment, catalogue=catalogue)) as log:
        until(done, "the reader is past the batch")


def test_a_question_behind_a_batch_of_very_many_unreadable_records_is_answered(
    start: Start,
    bomb: Bomb,
    loosened: Callable[..., contextmanager[None]],
    kafka: Kafka,
    names: Topics,
) -> None:
    worker = start()
    with loosened(names.queries):
        for partition in range(4):
            assert bomb(partition, 40, records=140_000, topic=names.queries) == set()
    with Recommendations(kafka.bootstrap, names.prefix) as ask:
        for user in range(16):  # on every partition
            assert ask.best(f"{user:032x}", 5, PATIENCE_SECONDS).items == ()
    assert worker.metrics()["queries_total{outcome=refused}"] >= 4


def test_a_worker_does_not_start_on_a_topic_that_takes_what_expands(
    start: Start, loosened: Callable[[], contextmanager[None]]
) -> None:
    with loosened():
        refusal = sentence(start(ready=False))
    assert "compression.type producer" in refusal
    assert "murmurec topics apply" in refusal


@pytest.mark.nightly
def test_a_batch_in_the_cut_log_that_expands_ends_no_worker_and_no_command(
    start: Start,
    send: Send,
    bomb: Bomb,
    loosened: Callable[..., contextmanager[None]],
    names: Topics,
    proof: Proof,
    command: Command,
    rng: np.random.Generator,
) -> None:
    """It is no entry, as every record there that cannot be decoded; afterwards none is taken. One
    is read by whoever reads a whole topic, and one expands beyond what any reader takes."""
    records = [publish(event) for event in events(rng, 300)]
    worker = start()
    send(records[:150])
    worker.wait_for(ends_of(records[:150]))
    with loosened(names.cuts):
        assert bomb(0, 30 * _MB, topic=names.cuts) == set()
        assert bomb(0, 30 * _MB, 10, topic=names.cuts) == set()
    assert bomb(0, 30 * _MB, topic=names.cuts) == {"MSG_SIZE_TOO_LARGE"}
    send(records[150:])
    worker.wait_for(ends_of(records))
    stop(worker)
    again = start()
    again.wait_for(ends_of(records))
    stop(again)
    for words in ("digest", "rebuild"):
        code, output = command("state", words)
        assert code == 0, output
    assert command("doctor")[0] == 0
    proof(start("--rebuild").wait_for(ends_of(records)))


def test_a_worker_does_not_start_on_a_cut_log_that_takes_what_expands(
    start: Start, loosened: Callable[..., contextmanager[None]], names: Topics
) -> None:
    with loosened(names.cuts):
        refusal = sentence(start(ready=False))
    assert "compression.type producer" in refusal
    assert "murmurec topics apply" in refusal


@pytest.mark.parametrize("name", ["cuts", "rounds"])
def test_a_batch_of_an_inner_log_that_nobody_can_expand_is_passed(
    bomb: Bomb,
    loosened: Callable[..., contextmanager[None]],
    kafka: Kafka,
    names: Topics,
    name: str,
) -> None:
    """By a reader of the whole topic, and by one that follows it."""
    topic = getattr(names, name)
    producer = clients.producer(kafka.connection)

    def entry(number: int) -> None:
        producer.produce(topic, key=b"%d" % number, value=b"entry")
        assert producer.flush(PATIENCE_SECONDS) == 0

    entry(1)
    with loosened(topic):
        assert bomb(0, 30 * _MB, topic=topic) == set()
        assert bomb(0, 30 * _MB, 10, topic=topic) == set()
    entry(2)
    found = [message.key() for message in topic_follower.records(kafka.connection, topic)]
    assert [key for key in found if len(key) == 1] == [b"1", b"2"]
    with topic_follower.TopicFollower(
        kafka.connection, "bombs", fetch_message_max_bytes=2 << 20
    ) as follower:
        follower.begin(TopicPartition(topic, 0, 0))
        followed = [each.key() for each in follower.up_to({(topic, 0): 13})]
    assert [key for key in followed if len(key) == 1] == [b"1", b"2"]
    assert follower.unreadable


@pytest.mark.parametrize("name", ["item_links", "recommendations", "rejected", "item_table"])
def test_a_worker_does_not_start_while_an_inner_topic_takes_what_expands(
    start: Start,
    loosened: Callable[..., contextmanager[None]],
    names: Topics,
    command: Command,
    name: str,
) -> None:
    """And does once the advice is taken."""
    with loosened(getattr(names, name)):
        refusal = sentence(start(ready=False))
        assert f"{getattr(names, name)} has compression.type producer" in refusal
        assert "murmurec topics apply" in refusal
        assert command("topics", "apply")[0] == 0
        start()
