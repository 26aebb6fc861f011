"""A topic of the site is read exactly once into the store, through kills and take-overs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka.admin import NewTopic
from sqlalchemy import func, select, update

from producers.edge.events.topic_mapping import mapping
from producers.edge.events.topic_source import TopicSource
from producers.edge.store.database import Database
from producers.edge.store.store_tables import feedback, offsets
from stream_app.errors import Unwritable, UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from tests.conftest import Kafka
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.producers.edge.stores import Terms, full

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

PARTITIONS = 4
MAPPING = mapping({"user": "/who/id", "item": "/sku", "type": "purchase"}, Path("edge.toml"))
SHORT = {"session.timeout.ms": 1500, "heartbeat.interval.ms": 200}

Publish = Callable[[int], None]
Opened = Callable[..., TopicSource]


@pytest.fixture
def topic(kafka: Kafka, prefix: str) -> Iterator[str]:
    admin, name = clients.admin(kafka.connection), f"{prefix}.orders"
    for asked in admin.create_topics([NewTopic(name, PARTITIONS, 1)]).values():
        asked.result(PATIENCE_SECONDS)
    until(lambda: name in clients.listed(admin), "the topic is there")
    yield name
    for asked in admin.delete_topics([name]).values():
        asked.result(PATIENCE_SECONDS)


@pytest.fixture
def publish(kafka: Kafka, topic: str, rng: np.random.Generator) -> Publish:
    """Give a function that writes so many events, no two alike, into random partitions."""
    producer = clients.producer(kafka.connection)
    written = 0

    def more(count: int) -> None:
        nonlocal written
        for place in rng.integers(0, PARTITIONS, count):
            record = {"who": {"id": f"user {written % 17}"}, "sku": f"item {written}"}
            producer.produce(topic, json.dumps(record).encode(), partition=int(place))
            written += 1
        assert producer.flush(PATIENCE_SECONDS) == 0

    return more


@pytest.fixture
def opened(kafka: Kafka, topic: str, database: Database) -> Iterator[Opened]:
    with ExitStack() as stack:

        def source(**more: Any) -> TopicSource:
            made = TopicSource(
                kafka.connection, topic, f"{topic}-edge", MAPPING, database, Terms(),
                **{**{name.replace(".", "_"): value for name, value in SHORT.items()}, **more},
            )  # fmt: skip
            stack.callback(made.stop)
            return made

        yield source


def stored(database: Database) -> tuple[int, int]:
    """Return the rows of feedback, and the sum of the offsets beside them, of one moment."""
    with database.reading() as connection:
        rows = connection.execute(select(func.count()).select_from(feedback)).scalar_one()
        return rows, connection.execute(select(func.sum(offsets.c.next))).scalar_one() or 0


def take(source: TopicSource, database: Database, count: int) -> None:
    until(lambda: source.step(0.1) >= 0 and stored(database)[1] >= count, "all were read")


def test_each_record_is_a_row_and_a_new_source_goes_on(
    opened: Callable[..., TopicSource],
    publish: Publish,
    database: Database,
    kafka: Kafka,
    topic: str,
):
    publish(300)
    first = opened()
    take(first, database, 300)
    assert (first.taken, first.repeated, stored(database)) == (300, 0, (300, 300))
    assert sum(first.positions.values()) == 300
    first.stop()
    producer = clients.producer(kafka.connection)
    for wrong in (None, b"{", b"\xff", b'{"sku":"a"}', json.dumps({"who": {"id": "u" * 2000}})):
        producer.produce(topic, wrong, partition=0)
    producer.flush(PATIENCE_SECONDS)
    publish(50)
    second = opened()
    take(second, database, 355)
    assert (second.taken, second.repeated, stored(database)) == (50, 0, (350, 355))
    assert dict(second.refused) == {
        "empty": 1,
        "not_json": 1,
        "not_utf8": 1,
        "user_missing": 1,
        "user_invalid": 1,
    }


def test_the_copy_of_the_offsets_shows_the_lag(
    opened: Callable[..., TopicSource],
    publish: Publish,
    database: Database,
    kafka: Kafka,
    topic: str,
):
    from confluent_kafka import TopicPartition

    publish(40)
    source = opened()
    take(source, database, 40)
    reader = clients.consumer(kafka.connection, group=f"{topic}-edge")
    places = [TopicPartition(topic, each) for each in range(PARTITIONS)]

    def committed() -> int:
        source.step(0.1)
        return sum(max(0, each.offset) for each in reader.committed(places, timeout=10))

    until(lambda: committed() == 40, "the offsets are committed")
    reader.close()


def test_the_newest_records_alone_are_read_where_asked(
    opened: Opened, publish: Publish, database: Database
):
    publish(30)
    source = opened(begin="latest")
    until(lambda: source.step(0.1) >= 0 and len(source.positions) == PARTITIONS, "it is assigned")
    publish(20)
    take(source, database, 50)
    assert stored(database) == (20, 50)


def test_two_edges_share_the_partitions_and_take_each_record_once(
    opened: Opened, publish: Publish, database: Database
):
    publish(200)
    first = opened()
    take(first, database, 200)
    second = opened()
    second.start()
    until(lambda: first.step(0.1) >= 0 and len(first.positions) == PARTITIONS // 2, "it shares")
    until(lambda: len(second.positions) == PARTITIONS // 2, "the other has its part")
    publish(400)
    take(first, database, 600)
    second.stop()
    publish(100)
    take(first, database, 700)
    assert stored(database) == (700, 700)
    assert first.taken + second.taken == 700
    assert first.repeated + second.repeated == 0
    assert second.taken > 0


def test_a_partition_that_another_edge_has_moved_is_read_from_there(
    opened: Opened, publish: Publish, database: Database
):
    publish(100)
    source = opened()
    take(source, database, 100)
    with database.writing() as connection:  # as an edge does that took over during a long pause
        connection.execute(update(offsets).values(next=offsets.c.next + 3))
    publish(100)
    until(lambda: source.step(0.1) >= 0 and sum(source.positions.values()) == 200, "it went on")
    assert stored(database) == (200 - 3 * PARTITIONS, 200)


def test_while_the_store_refuses_nothing_moves_and_nothing_is_lost(
    opened: Opened, publish: Publish, database: Database
):
    publish(10)
    source = opened()
    take(source, database, 10)
    publish(1_000)
    with full(database):
        with pytest.raises(Unwritable, match="disk is full"):
            until(lambda: source.step(0.1) < 0, "it refuses")
        assert stored(database) == (10, 10)
    take(source, database, 1_010)
    assert stored(database) == (1_010, 1_010)
    assert (source.taken, source.repeated) == (1_010, 0)


def test_a_problem_is_shown_while_its_thread_waits(
    opened: Opened, publish: Publish, database: Database
):
    publish(500)
    with full(database):
        source = opened()
        source.start()
        until(lambda: source.problem and "disk is full" in source.problem, "it says so")
    until(lambda: stored(database) == (500, 500), "all are there")
    until(lambda: source.problem is None, "it says nothing more")


def test_a_topic_that_is_absent_is_named(kafka: Kafka, database: Database, prefix: str):
    with pytest.raises(UserError, match=f"topic {prefix}-none: Kafka has none of that name"):
        TopicSource(kafka.connection, f"{prefix}-none", "group", MAPPING, database, Terms())


PROGRAM = """
import sys
from tests.producers.edge.events.test_topic_source import SHORT, MAPPING
from tests.producers.edge.stores import Terms
from producers.edge.events import topic_source
from producers.edge.events.topic_source import TopicSource
from producers.edge.store.database import Database
from stream_app.kafka.clients import Connection
topic_source._BATCH = 20
address, bootstrap, topic = sys.argv[1:]
with Database(address) as database:
    source = TopicSource(Connection(bootstrap), topic, f"{topic}-edge", MAPPING, database, Terms(),
                         **{name.replace(".", "_"): value for name, value in SHORT.items()})
    while True:
        if source.step(0.1):
            print("stored", flush=True)
"""


def test_kills_between_commits_lose_and_double_nothing(
    kafka: Kafka, topic: str, publish: Publish, store_path: Path, rng: np.random.Generator
):
    """After each kill the rows are as many as the offsets say: both were in one transaction."""
    address = f"sqlite:///{store_path}"
    total = 0
    for _ in range(5):
        publish(400)
        total += 400
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM, address, kafka.bootstrap, topic],
            stdout=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            for _ in range(int(rng.integers(1, 10))):
                if not process.stdout.readline():
                    break
            process.send_signal(signal.SIGKILL)
        with Database(address) as database:
            rows, read = stored(database)
            assert rows == read
    with Database(address) as database:
        source = TopicSource(
            Connection(kafka.bootstrap), topic, f"{topic}-edge", MAPPING, database, Terms()
        )
        take(source, database, total)
        assert stored(database) == (total, total)
        source.stop()
