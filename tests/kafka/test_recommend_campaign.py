"""What a campaign released reaches the lists of devices, over a real broker, also where the owner
of the clock is killed between release and publication; and a list leaves no trace of its user."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import TopicPartition

from murmurec import Device
from producers.ranking import LocalRecommender, campaign_side, published
from producers.ranking.published import PublicTable
from stream_app.aggregation import keys
from stream_app.aggregation.keys import Role
from stream_app.aggregation.round_topics import RoundTopic
from stream_app.broker.local import free_ports
from stream_app.campaigns import learning
from stream_app.campaigns.public_side import PublishedSide, encode_published
from stream_app.campaigns.rounds import Phase
from stream_app.campaigns.sealing import seal
from stream_app.cli import run
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.acknowledged_writer import AcknowledgedWriter
from stream_app.privacy.randomness import SystemSource
from stream_app.wire import Topics
from stream_app.wire.campaigns.contribution import encode_contribution
from stream_app.wire.campaigns.plan import Campaign, encode_plan
from stream_app.wire.public_tables import encode_table_record, table_records
from stream_app.wire.topics import FEATURES
from tests.conftest import Kafka
from tests.fixtures import forks
from tests.fixtures.campaigns import vector_of
from tests.fixtures.tastes import SCOPE, TASTES, campaign_of, person, side_of
from tests.fixtures.waiting import until
from tests.kafka.conftest import SOON, Start
from tests.kafka.test_aggregation import Aggregator
from tests.stream_app.aggregation.world import device_id

pytestmark = pytest.mark.kafka


@pytest.fixture
def session_seconds() -> float:
    return SOON


DEVICES = 400
DEADLINE_CUTS = 200  # 10 s at the 0.05 s of these workers, to contribute in

# The sum stands in the cut log and in the state; no record of the side is written.
KILLED = """
    import os, signal
    from stream_app.agents.public_tables import SidePublisher

    publish = SidePublisher.publish

    def killed(self, standing, cut):
        if standing.side is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        publish(self, standing, cut)

    SidePublisher.publish = killed
"""


@pytest.fixture(autouse=True)
def _deployment(environment: Callable[..., None], kafka: Kafka, topics: str) -> None:
    environment(
        MURMUREC_BOOTSTRAP_SERVERS=kafka.bootstrap,
        MURMUREC_TOPIC_PREFIX=topics,
        MURMUREC_PRIVACY_MODE="central",
        MURMUREC_DEVICE_JOURNAL="device.journal",
        MURMUREC_TUNING_CACHE_DIR="cache",
    )


def begun(tmp_path: Path) -> Campaign:
    """Begin a campaign of one stage by the command."""
    party = keys.make(tmp_path, Role.CENTRAL)
    made = campaign_of(deadline_cuts=DEADLINE_CUTS, keys=(party.public.hex(),))
    path = tmp_path / "plan.json"
    path.write_bytes(encode_plan(made))
    assert run(["rounds", "begin", str(path), "--key", str(tmp_path / "central.pub")]) == 0
    return made


def contribute(kafka: Kafka, topics: str, campaign: Campaign) -> None:
    """Send what a population of two tastes gives."""
    producer, random = clients.producer(kafka.connection), np.random.default_rng(8)
    for number in range(DEVICES):
        vector = vector_of(campaign, person(random, number % 2))
        made = seal(campaign, 0, device_id(number), vector, SystemSource())
        value = encode_contribution(made)
        clients.send(producer, Topics(topics).contributions, key=made.key, value=value)
        producer.poll(0)
    assert producer.flush(30) == 0


@pytest.fixture
def killed_owner(kafka: Kafka, topics: str, tmp_path: Path, start: Start) -> Iterator[Any]:
    """Give a worker that ends where it would publish."""
    folder = tmp_path / "killed"
    folder.mkdir()
    arguments = ["worker", "--admin-port", str(free_ports(1)[0]), "--group", topics]
    process = forks.start(arguments, folder / "worker.log", before=KILLED)
    yield process
    process.kill()
    process.wait()


def listed(*arguments: str) -> dict[str, Any]:
    """Return the answer of `murmurec recommend --local` in a process of its own."""
    done = forks.run(["recommend", "--local", "--json", *arguments])
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.thorough
def test_what_was_released_is_ranked_by_although_the_owner_was_killed_before_it_published(
    kafka: Kafka, topics: str, start: Start, killed_owner: Any, tmp_path: Path
) -> None:
    names = Topics(topics)
    log = RoundTopic(kafka.connection, names.rounds)
    broker = ["--bootstrap", kafka.bootstrap, "--prefix", topics]
    campaign = begun(tmp_path)
    aggregator = Aggregator(Role.CENTRAL, tmp_path, broker)
    aggregator.start()
    try:
        until(lambda: log.catch_up().stages, "the plan is read")
        stage = log.rounds.stages[0]
        until(lambda: log.catch_up() and stage.phase is not Phase.PLANNED, "the stage is open")
        contribute(kafka, topics, campaign)
        until(lambda: killed_owner.poll() is not None, "the owner has ended")
    finally:
        aggregator.end(signal.SIGTERM)
    assert killed_owner.returncode == -signal.SIGKILL
    log.catch_up()
    log.close()
    assert stage.result is not None
    assert campaign_side(kafka.connection, topics) is None
    start()
    until(lambda: campaign_side(kafka.connection, topics) is not None, "the side is published")
    side = learning.learn(campaign, 0, stage.result)
    expected = encode_published(PublishedSide.of_campaign(campaign, 1, side))
    found = campaign_side(kafka.connection, topics)
    assert found is not None
    assert encode_published(found) == expected
    with Device("ann", "device.journal", prefix=topics).enrol() as device:
        for item in (21, 25, 29, 33):
            device.rate(item, 5)
        by_device = device.recommend(kafka.bootstrap, 6, by="campaign")
        local = LocalRecommender(PublicTable(found)).recommend(device.rated, 6)
    answer = listed("--user", "ann", "-k", "6")
    assert [row["item"] for row in answer["items"]] == [row.item for row in local.items]
    assert by_device.items == local.items
    assert sum(row.item in TASTES[1] for row in local.items) >= 5
    assert (answer["method"], answer["campaign"]["epsilon"]) == ("together", 2.0)
    assert answer["reason"].startswith("by campaign: privacy_mode is central")


def write(kafka: Kafka, topics: str, table: bytes, cut: int, slot: int) -> None:
    writer = AcknowledgedWriter.connect(kafka.connection, Topics(topics).item_side)
    for record in table_records(table, cut, slot):
        writer.send_patiently(key=record.key, value=encode_table_record(record))
    writer.wait()


def ends(kafka: Kafka, topics: str) -> dict[tuple[str, int], int]:
    """Return the end offset of every partition of the deployment."""
    consumer = clients.consumer(kafka.connection)
    try:
        return {
            (topic.name, number): clients.offsets(consumer, TopicPartition(topic.name, number))[1]
            for topic in Topics(topics).table(features=FEATURES.keys() - {"shards"})
            for number in range(topic.partitions)
        }
    finally:
        consumer.close()


def test_a_list_writes_nothing_and_its_reads_do_not_depend_on_the_user(
    kafka: Kafka, topics: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Users of either taste, of none, and one whose history is empty: the same requests."""
    write(kafka, topics, encode_published(side_of()), 5, 0)
    reads: list[tuple[object, ...]] = []
    for name in ("records", "exists"):
        before = getattr(published, name)

        def recorded(connection, topic, before=before, name=name, **more):
            reads.append((name, topic, *more.items()))
            return before(connection, topic, **more)

        monkeypatch.setattr(published, name, recorded)

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a producer was made")

    with Device("ann", "device.journal", prefix=topics).enrol() as device:
        device.rate(21, 5)
    with Device("bob", "device.journal", prefix=topics).enrol() as device:
        for item in SCOPE[:8]:
            device.rate(item, 5)
    Path("other.csv").write_text("elsewhere,5\n")
    monkeypatch.setattr(clients, "producer", refused)
    start, seen = ends(kafka, topics), []
    for arguments in (["ann"], ["bob"], ["cleo"], ["cleo", "--rated", "other.csv"]):
        for cached in Path("cache").rglob("*.table"):
            cached.unlink()
        reads.clear()
        assert run(["recommend", "--local", "--because", "--user", *arguments]) == 0
        seen.append(list(reads))
    assert len(seen[0]) >= 4
    assert seen == [seen[0]] * 4
    assert ends(kafka, topics) == start
    shown = capsys.readouterr().out
    assert shown.count("method together") == 2
    assert shown.count("method popular") == 2


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (b"random bytes", "format 0: this version reads format 1"),
        (bytes(100_000), "format 0: this version reads format 1"),
    ],
)
def test_a_side_of_other_bytes_is_one_sentence_and_the_cache_serves(
    kafka: Kafka, topics: str, table: bytes, sentence: str
) -> None:
    write(kafka, topics, table, 5, 0)
    with pytest.raises(UserError, match=sentence):
        LocalRecommender.from_kafka(kafka.connection, topics, cache_dir="cache", by="campaign")
    write(kafka, topics, encode_published(side_of(people=20)), 6, 1)
    fresh = LocalRecommender.from_kafka(kafka.connection, topics, cache_dir="cache", by="campaign")
    assert fresh.table.problem == ""
    write(kafka, topics, table, 7, 0)
    kept = LocalRecommender.from_kafka(kafka.connection, topics, cache_dir="cache", by="campaign")
    assert sentence in kept.table.problem
    assert kept.recommend([], 3).items == fresh.recommend([], 3).items
    assert kept.table.fetched == fresh.table.fetched


def test_without_a_campaign_there_is_one_sentence(kafka: Kafka, topics: str) -> None:
    with pytest.raises(UserError, match=r"no side of a campaign in .* yet: a worker publishes it"):
        LocalRecommender.from_kafka(kafka.connection, topics, by="campaign")
    assert campaign_side(kafka.connection, topics) is None
    with pytest.raises(UserError, match=r"127\.0\.0\.1:1"):
        campaign_side(clients.Connection("127.0.0.1:1"), topics)
