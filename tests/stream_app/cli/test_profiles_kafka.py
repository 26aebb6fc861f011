"""`murmurec profiles publish` against a real broker: one profile a device and epoch, readable."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from producers.journal import NANO, read_journal
from producers.pseudonyms import pseudonym
from stream_app import wire
from stream_app.cli import run
from stream_app.kafka import clients
from stream_app.privacy.profiles import profile_registry as profiles
from tests.conftest import Kafka
from tests.fixtures.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.kafka
ID = "blip:5000:4:8"


@pytest.fixture
def topic(environment: Callable[..., None], kafka: Kafka, topics: str) -> str:
    """Work in an empty folder with the broker and the topics configured; give the profile topic."""
    environment(
        MURMUREC_BOOTSTRAP_SERVERS=kafka.bootstrap,
        MURMUREC_TOPIC_PREFIX=topics,
        MURMUREC_DEVICE_JOURNAL="device.journal",
    )
    rows = [f"u{user},{item},5\n" for user in range(20) for item in range(user, user + 30)]
    Path("mine.csv").write_text("user,item,rating\n" + "".join(rows))
    return wire.Topics(topics).profiles


def everything(kafka: Kafka, topic: str) -> list[wire.ProfileEvent]:
    """Read the topic from its start to its end and decode as a server does."""
    from confluent_kafka import TopicPartition

    made = profiles.parse(ID)
    reader = clients.consumer(kafka.connection, group="test-profiles")
    try:
        place = TopicPartition(topic, 0, 0)
        reader.assign([place])
        left, events = reader.get_watermark_offsets(place, timeout=PATIENCE_SECONDS)[1], []
        while left:
            record = reader.poll(10)
            assert record is not None, f"{left} records did not arrive within 10 seconds"
            assert record.error() is None
            sizes = {made.id: made.profile_bytes}
            events.append(wire.decode_profile(record.key(), record.value(), sizes))
            left -= 1
        return events
    finally:
        reader.close()


def test_every_user_has_one_profile_in_the_topic_and_a_second_run_adds_none(
    topic: str, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["profiles", "publish", "mine.csv", "--mechanism", ID, "--json"]
    assert run(asked) == 0
    captured = capsys.readouterr()
    row = json.loads(captured.out)
    assert (row["devices"], row["published"], row["events_accepted"]) == (20, 20, 20)
    assert row["mechanism"] == ID
    assert "protected  whether an item is in a profile" in captured.err
    assert run(asked) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["published"], again["published_before"]) == (0, 20)
    events = everything(kafka, topic)
    key = read_journal("device.journal").key
    assert {event.device for event in events} == {pseudonym(key, f"u{i}") for i in range(20)}
    assert {event.seq for event in events} == {1}
    made, device = profiles.parse(ID), pseudonym(key, "u3")
    (published,) = [event for event in events if event.device == device]
    read = made.coordinates(np.frombuffer(published.profile, np.uint8)[None])
    has = made.evidence(read, np.array([30.0])) @ made.probes(np.arange(100, dtype=np.uint64))
    assert has[0, 3:33].mean() > 0.6 > 0.2 > abs(has[0, 40:].mean())


def test_a_topic_that_is_not_there_costs_no_epsilon(
    topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["profiles", "publish", "mine.csv", "--prefix", "no-such-prefix"]) == 1
    assert "create it with murmurec topics apply" in capsys.readouterr().err
    assert not Path("device.journal").exists()


def test_a_user_over_budget_sends_nothing(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["profiles", "publish", "mine.csv", "--mechanism", ID, "--budget", "7"]
    assert run(asked) == 0
    out = capsys.readouterr().out
    assert "20 devices over the budget of the whole person" in out
    assert "0 profiles accepted" in out


def test_what_was_spent_is_a_cell_of_epsilon(
    topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["profiles", "publish", "mine.csv", "--mechanism", ID]) == 0
    capsys.readouterr()
    view = read_journal("device.journal")
    spent = view.book.accounts[pseudonym(view.key, "u3")].spent()
    assert spent["profile", "cell"].nano == 8 * NANO
