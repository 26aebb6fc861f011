"""`murmurec recommend --local` with a real Kafka: whole versions, half versions, the cache."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import TopicPartition

from murmurec import Device, LocalRecommender
from stream_app.agents.public_tables import Versions, published
from stream_app.cli import run
from stream_app.kafka import clients
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter
from stream_app.kafka.topic_admin import delete
from stream_app.ranking.compact_side import encode_side
from stream_app.ranking.derivation import derive
from stream_app.ranking.item_side import ItemSide
from stream_app.wire import PARTITIONS, Topics
from stream_app.wire.public_tables import TableRecord, encode_table_record, table_records
from tests.conftest import Kafka
from tests.stream_app.ranking.tables import devices, public

pytestmark = pytest.mark.kafka
CLUSTERS = 4
ASK = ["recommend", "--local", "--user", "ann"]


@pytest.fixture(autouse=True)
def _device(environment: Callable[..., None], kafka: Kafka, topics: str) -> None:
    environment(
        MURMUREC_BOOTSTRAP_SERVERS=kafka.bootstrap,
        MURMUREC_TOPIC_PREFIX=topics,
        MURMUREC_DEVICE_JOURNAL="device.journal",
        MURMUREC_TUNING_CACHE_DIR="cache",
    )


@pytest.fixture(scope="module")
def side() -> ItemSide:
    """Give the item side of a world whose items 1, 5, 9 ... go together, and 2, 6, 10 ..."""
    counts = public(devices(np.random.default_rng(5), users=1500, clusters=CLUSTERS))
    return derive(counts, np.full(len(counts.keys), 3.5, np.float32)).side


def write(kafka: Kafka, topics: str, records: Iterable[TableRecord]) -> None:
    writer = AcknowledgedWriter.connect(kafka.connection, Topics(topics).item_links)
    for record in records:
        writer.send_patiently(key=record.key, value=encode_table_record(record))
    writer.wait()


def publish_side(kafka: Kafka, topics: str, side: ItemSide) -> None:
    owner = Versions(lambda: published(kafka.connection, Topics(topics).item_links))
    write(kafka, topics, owner.due(encode_side(side), side.version))


def written(kafka: Kafka, topic: str) -> int:
    """Return how many records a topic of four partitions holds."""
    consumer = clients.consumer(kafka.connection)
    try:
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        return sum(clients.offsets(consumer, place)[1] for place in places)
    finally:
        consumer.close()


def answer(capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run([*ASK, *more, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_before_the_first_version_there_is_one_sentence(
    kafka: Kafka, topics: str, side: ItemSide, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(ASK) == 1
    assert "no item side in" in capsys.readouterr().err
    write(kafka, topics, list(table_records(bytes(200_000), 1, 0))[:2])
    assert run(ASK) == 1
    assert "no version of the item side is whole; try again" in capsys.readouterr().err
    write(kafka, topics, table_records(b"mwis\1" + bytes(60), 2, 1))
    assert run(ASK) == 1
    assert "format 1: this version reads format 2" in capsys.readouterr().err
    delete(clients.admin(kafka.connection), [Topics(topics).item_links])
    assert run(ASK) == 1
    assert "does not exist: create it with murmurec topics apply" in capsys.readouterr().err
    assert not Path("cache").exists()


def test_published_ratings_decide_the_local_list_and_no_query_is_written(
    kafka: Kafka, topics: str, side: ItemSide, capsys: pytest.CaptureFixture[str]
) -> None:
    publish_side(kafka, topics, side)
    assert run(["device", "enrol", "--user", "ann"]) == 0
    for item in ("1", "5", "9"):
        assert run(["publish", "--user", "ann", "--item", item, "--rating", "5"]) == 0
    assert f"kept       the clean rating, on this device only: {Path.cwd()}" in (
        capsys.readouterr().out
    )
    for item, title in ((13, "Thirteen"), (17, "Seventeen")):
        assert run(["items", "put", str(item), "--title", title]) == 0
    assert run(["items", "put", "17", "--withdraw"]) == 0
    found = answer(capsys, "-k", "8", "--because")
    listed = [row["item"] for row in found["items"]]
    assert {(item - 1) % CLUSTERS for item in listed} == {0}
    assert {1, 5, 9, 17}.isdisjoint(listed)
    assert {row["item"]: row["title"] for row in found["items"]}[13] == "Thirteen"
    assert all(row["because"] and set(row["because"]) <= {1, 5, 9} for row in found["items"])
    assert (found["method"], found["known"], found["cached"]) == ("links", 3, False)
    assert written(kafka, Topics(topics).queries) == 0
    assert written(kafka, Topics(topics).ratings) == 3


def test_a_rating_that_is_not_to_be_kept_is_not(
    kafka: Kafka, topics: str, side: ItemSide, capsys: pytest.CaptureFixture[str]
) -> None:
    publish_side(kafka, topics, side)
    assert run(["device", "enrol", "--user", "ann"]) == 0
    rating = ["publish", "--user", "ann", "--item", "1", "--rating", "5", "--no-history"]
    assert run(rating) == 0
    assert "kept" not in capsys.readouterr().out
    assert not Path("device.journal.history").exists()
    assert answer(capsys)["method"] == "popular"


def test_the_cache_serves_while_no_newer_version_is_whole_and_without_the_broker(
    kafka: Kafka,
    topics: str,
    side: ItemSide,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publish_side(kafka, topics, side)
    first = answer(capsys)
    (cached,) = Path("cache").rglob("*.table")
    before = cached.read_bytes()
    assert answer(capsys)["items"] == first["items"]
    assert cached.read_bytes() != before  # it was compared with the topic just now
    newer = list(table_records(bytes(200_000), side.version + 1, 1))
    write(kafka, topics, newer[:3])
    assert answer(capsys)["items"] == first["items"]  # half a version beside the whole one
    write(kafka, topics, table_records(bytes(200_000), side.version + 2, 0))
    damaged = answer(capsys)
    assert (damaged["items"], damaged["cached"]) == (first["items"], True)
    offline = answer(capsys, "--offline")
    assert (offline["items"], offline["cached"]) == (first["items"], True)


def test_a_device_of_the_library_reads_the_same_table(
    kafka: Kafka, topics: str, side: ItemSide
) -> None:
    publish_side(kafka, topics, side)
    with Device("ann", "device.journal", prefix=topics).enrol() as device:
        device.rate(2, 5)
        found = device.recommend(kafka.bootstrap, 3)
        again = device.recommend(LocalRecommender.from_kafka(kafka.connection, topics), 3)
    assert found == again
    assert {(int(row.item) - 1) % CLUSTERS for row in found.items} == {1}
