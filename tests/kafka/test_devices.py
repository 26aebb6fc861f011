"""Devices against a real broker: what they send is accepted, decodes, and is sent once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from producers.pseudonyms import pseudonym
from producers.journal import Journal, read_key
from stream_app import clients, wire
from stream_app.cli import run
from tests.conftest import Kafka

pytestmark = pytest.mark.kafka
INTAKE = wire.Intake({"rr:5:2": 5, "none:5:inf": 5})


@pytest.fixture
def here(environment: Callable[..., None], kafka: Kafka, topics: str) -> str:
    """Work in an empty folder with the broker and the topics configured; give the rating topic."""
    environment(
        MURMUREC_BOOTSTRAP_SERVERS=kafka.bootstrap,
        MURMUREC_TOPIC_PREFIX=topics,
        MURMUREC_DEVICE_JOURNAL="device.journal",
        MURMUREC_MECHANISMS="rr:5:2,none:5:inf",
    )
    return wire.Topics(topics).ratings


def everything(kafka: Kafka, topic: str) -> list[wire.Event]:
    """Read the topic from its start to its end and decode as a server does."""
    from confluent_kafka import TopicPartition

    reader = clients.consumer(kafka.bootstrap, group="test-devices")
    try:
        places = [TopicPartition(topic, p, 0) for p in range(wire.PARTITIONS)]
        reader.assign(places)
        left = sum(reader.get_watermark_offsets(place, timeout=10)[1] for place in places)
        events = []
        while left:
            record = reader.poll(10)
            assert record is not None, f"{left} records did not arrive within 10 seconds"
            assert record.error() is None
            events.append(wire.decode(record.key(), record.value(), record.partition(), INTAKE))
            left -= 1
        return events
    finally:
        reader.close()


def test_a_published_rating_is_accepted_where_its_key_belongs(
    here: str, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["publish", "--user", "ann", "--item", "1193", "--rating", "4"]) == 0
    said = capsys.readouterr().out
    assert f"accepted   {here}, partition " in said
    assert "protected  the value of each rating" in said
    assert "adjacency: value" in said
    assert "public     that the ratings exist" in said
    assert (
        run(
            [
                "publish",
                "--user",
                "ann",
                "--item",
                "tt01",
                "--rating",
                "4",
                "--json-encoding",
                "--json",
            ]
        )
        == 0
    )
    told = json.loads(capsys.readouterr().out)
    events = everything(kafka, here)
    who = pseudonym(read_key("device.journal"), "ann")
    assert {(event.device, event.seq) for event in events} == {(who, 1), (who, 2)}
    assert {int(event.items[0]) for event in events} == {1193, wire.key("tt01")}
    assert (told["device"], told["seq"], told["mechanism"]) == (who.hex(), 2, "rr:5:2")
    assert run(["publish", "--user", "ann", "--item", "1193", "--rating", "4"]) == 1
    assert "published already" in capsys.readouterr().err
    assert run(["publish", "--user", "ann", "--item", "1193", "--rating", "4", "--again"]) == 0


def test_a_topic_that_is_not_there_costs_no_epsilon(
    here: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--user", "ann", "--item", "1", "--rating", "4", "--prefix", "nobody-made-this"]
    assert run(["publish", *arguments]) == 1
    assert "create it with murmurec topics apply" in capsys.readouterr().err
    assert not Path("device.journal").exists()


def test_a_replay_sends_every_rating_once_and_goes_on_where_it_was(
    here: str, kafka: Kafka, rng: np.random.Generator, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = rng.choice(40 * 100, 2000, replace=False)
    ratings = rng.integers(1, 6, 2000)
    users, items = cells // 100, cells % 100
    users[-1], items[-1] = users[0], items[0]  # one repeated cell
    np.savez("mine.npz", user=users, item=items, rating=ratings)
    replay = ["replay", "mine.npz", "--mechanism", "none"]
    assert run([*replay, "--limit", "700"]) == 0
    told = capsys.readouterr()
    assert told.out.splitlines()[-1] == "rows 700 = published 700 + refused 0"
    assert "nothing is protected" in told.err
    assert run([*replay, "--json"]) == 0
    told_json = json.loads(capsys.readouterr().out)
    assert (told_json["rows"], told_json["published"], told_json["refused"]) == (1300, 1299, 1)
    assert (told_json["skipped"], told_json["events_failed"]) == (700, 0)
    key = read_key("device.journal")
    sent = sorted(
        (event.device, int(item), int(report))
        for event in everything(kafka, here)
        for item, report in zip(event.items, event.reports, strict=True)
    )
    assert sent == sorted(
        (pseudonym(key, user), item, rating - 1)
        for user, item, rating in zip(
            users[:-1].tolist(), items[:-1].tolist(), ratings[:-1].tolist(), strict=True
        )
    )
    assert run(replay) == 1
    assert "published already" in capsys.readouterr().err


def test_what_was_published_by_one_way_is_not_published_by_another(
    here: str, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["publish", "--user", "1", "--item", "10", "--rating", "4"]) == 0
    np.savez("mine.npz", user=[1, 1, 2], item=[10, 11, 10], rating=[3, 4, 5])
    assert run(["replay", "mine.npz"]) == 0
    told = capsys.readouterr().out
    assert "1 of the refused were published before: --again" in told
    assert told.splitlines()[-1] == "rows 3 = published 2 + refused 1"
    np.savez("grown.npz", user=[1, 1, 2, 2], item=[10, 11, 10, 11], rating=[3, 4, 5, 1])
    assert run(["replay", "grown.npz", "--json"]) == 0
    told_json = json.loads(capsys.readouterr().out)
    assert (told_json["published"], told_json["published_before"]) == (1, 3)
    assert run(["publish", "--user", "2", "--item", "11", "--rating", "4"]) == 1
    assert "published already" in capsys.readouterr().err
    cells = [(e.device, int(item)) for e in everything(kafka, here) for item in e.items]
    assert len(cells) == len(set(cells)) == 4


def test_a_mechanism_that_is_not_allowed_costs_no_epsilon(
    here: str, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("mine.npz", user=[1, 1, 2], item=[10, 11, 10], rating=[3, 4, 5])
    for command in (
        ["publish", "--user", "ann", "--item", "1", "--rating", "4"], ["replay", "mine.npz"],
    ):  # fmt: skip
        assert run([*command, "--epsilon", "1"]) == 1
        assert "rr:5:1 is not allowed" in capsys.readouterr().err
    assert not Path("device.journal").exists()
    assert everything(kafka, here) == []


def test_a_replay_says_what_a_user_spends_in_sum(
    here: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("mine.npz", user=[1] * 30 + [2], item=[*range(30), 1], rating=[3] * 30 + [4])
    assert run(["replay", "mine.npz", "--epsilon", "2", "--speed", "1000"]) == 0
    said = capsys.readouterr().err
    assert "30 x 2 = 60 for the user with the most" in said
    assert "weakly protected" in said


def test_a_store_in_use_is_told_before_anything_is_sent(
    here: str, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("mine.npz", user=[1, 2], item=[1, 1], rating=[3, 4])
    with Journal.open("device.journal"):
        assert run(["replay", "mine.npz"]) == 1
        assert "another process is using it" in capsys.readouterr().err
        assert run(["publish", "--user", "ann", "--item", "1", "--rating", "4"]) == 1
    assert everything(kafka, here) == []
