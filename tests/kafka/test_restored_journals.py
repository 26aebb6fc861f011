"""A journal that was put back from a backup releases nothing, whichever way its user takes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from murmurec import Device
from producers.journal import Journal
from stream_app import wire
from stream_app.aggregation import keys
from stream_app.aggregation.keys import Role
from stream_app.cli import run
from stream_app.errors import OlderJournal
from stream_app.kafka import clients
from tests.conftest import Kafka
from tests.kafka.test_aggregation import coordinator
from tests.kafka.test_contribute import ITEMS, plan_of

__all__ = ["coordinator"]
pytestmark = pytest.mark.kafka

SENTENCE = "so this is an older copy"


@pytest.fixture(params=["same", "other"])
def put_back(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[Path, Path], None]:
    """Put a copy in the place of a journal: on the machine that has continued it, which knows that
    by itself, or on another one, which the topic tells."""

    def put(copy: Path, path: Path) -> None:
        shutil.copy(copy, path)
        if request.param == "other":
            monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other-machine"))

    return put


@pytest.fixture
def journal(environment: Callable[..., None], kafka: Kafka, topics: str, tmp_path: Path) -> Path:
    path = tmp_path / "own" / "device.journal"
    environment(
        MURMUREC_BOOTSTRAP_SERVERS=kafka.bootstrap,
        MURMUREC_TOPIC_PREFIX=topics,
        MURMUREC_DEVICE_JOURNAL=str(path),
    )
    assert run(["device", "enrol", "--user", "ann"]) == 0
    return path


def held(kafka: Kafka, topic: str) -> int:
    """Return how many records the topic holds."""
    with clients.consumer(kafka.connection) as reader:
        places = [TopicPartition(topic, each) for each in range(wire.PARTITIONS)]
        return sum(clients.offsets(reader, each)[1] for each in places)


def publish(item: int, *more: str) -> int:
    return run(["publish", "--user", "ann", "--item", str(item), "--rating", "4", *more])


def refused(capsys: pytest.CaptureFixture[str]) -> str:
    sentence = " ".join(capsys.readouterr().err.split())
    assert SENTENCE in sentence
    assert "put the newest copy back" in sentence
    return sentence


def test_three_copies_that_are_put_back_publish_no_second_draw(
    journal, put_back, kafka, topics, tmp_path, capsys
):
    topic, copy = wire.Topics(topics).ratings, tmp_path / "copy"
    shutil.copy(journal, copy)
    assert publish(1) == 0
    assert publish(2) == 0  # the plain journey goes on
    newest = journal.read_bytes()
    for _ in range(3):
        put_back(copy, journal)
        assert publish(1) == 1
        refused(capsys)
        assert journal.read_bytes() == copy.read_bytes()  # nothing is drawn or spent
    assert held(kafka, topic) == 2
    journal.write_bytes(newest)  # what the sentence says
    assert publish(3) == 0
    assert held(kafka, topic) == 3


def test_a_replay_from_a_copy_that_was_put_back_is_refused(
    journal, put_back, kafka, topics, tmp_path, capsys
):
    ratings, copy = tmp_path / "ratings.csv", tmp_path / "copy"
    ratings.write_text("user,item,rating,time\n" + "".join(f"{u},{u},4,1\n" for u in range(1, 6)))
    journal.unlink()  # the account of a person
    with Journal.open(journal) as opened:
        shutil.copy(opened.path, copy)
    assert run(["replay", str(ratings)]) == 0
    for epoch in ([], ["--emission", "epoch"]):
        put_back(copy, journal)
        assert run(["replay", str(ratings), *epoch]) == 1
        refused(capsys)
        with Journal.open(journal) as opened:
            assert opened.next_number == 1
    assert held(kafka, wire.Topics(topics).ratings) == 5


def test_a_contribution_from_a_copy_that_was_put_back_is_refused(
    journal, put_back, kafka, topics, tmp_path, coordinator, capsys
):
    party, scope = keys.make(tmp_path, Role.CENTRAL), tmp_path / "items.txt"
    scope.write_text("".join(f"{item}\n" for item in range(1, ITEMS + 1)))
    coordinator.begin(plan_of(party.public))
    coordinator.open_stage()
    command = ["device", "contribute", "--user", "ann", "--scope", str(scope)]
    command += ["--keys", str(tmp_path / "central.pub"), "--journal", str(journal)]
    copy = tmp_path / "copy"
    shutil.copy(journal, copy)
    assert run(command) == 0
    put_back(copy, journal)
    assert run(command) == 1
    refused(capsys)
    assert journal.read_bytes() == copy.read_bytes()
    assert held(kafka, wire.Topics(topics).contributions) == 1


def test_a_device_in_python_sends_nothing_from_a_copy_that_was_put_back(
    journal, put_back, kafka, topics, tmp_path, request
):
    copy = tmp_path / "copy"
    shutil.copy(journal, copy)
    with Device("ann", journal) as device:
        device.rate(1, 4)
        assert device.publish() == 1
        device.rate(2, 4)
        assert device.publish() == 1
    put_back(copy, journal)
    with Device("ann", journal) as device:
        if "[same]" in request.node.name:
            with pytest.raises(OlderJournal, match=SENTENCE):
                device.rate(1, 4)
            assert device.spent == 0
        else:  # without the broker it cannot be known yet
            device.rate(1, 4)
            device.rate(3, 4)
        with pytest.raises(OlderJournal, match=SENTENCE):
            device.publish()
    assert held(kafka, wire.Topics(topics).ratings) == 2


def test_a_topic_without_its_first_records_and_a_forged_event_have_a_way_on(
    journal, kafka, topics, capsys
):
    topic = wire.Topics(topics).ratings
    assert publish(1) == 0
    with clients.consumer(kafka.connection) as reader:
        places = [TopicPartition(topic, each) for each in range(wire.PARTITIONS)]
        ends = [TopicPartition(topic, each.partition, clients.offsets(reader, each)[1])
                for each in places]  # fmt: skip
    admin = clients.admin(kafka.connection)
    for done in admin.delete_records(ends).values():
        done.result(20)
    assert publish(2) == 0
    with Journal.open(journal) as opened:
        (account,) = opened.enrolled()
    writer = clients.producer(kafka.connection)
    place = next(each.partition for each in ends if each.offset)
    writer.produce(topic, b'{"seq": 9}', account.device.hex().encode(), place)
    assert writer.flush(20) == 0
    assert publish(3) == 1
    assert "that event is forged, and --trust-journal goes on" in refused(capsys)
    assert publish(3, "--trust-journal") == 0
