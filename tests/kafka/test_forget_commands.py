"""`murmurec forget` on a real broker: what it writes, what it refuses, and that a rebuilt state is
that of a log in which the device never was."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from confluent_kafka import TopicPartition

from stream_app.checkpoints.offline_writer import write_checkpoint
from stream_app.cli import run
from stream_app.kafka import clients, topic_follower
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_admin import create, delete
from stream_app.replay.cut_history import history
from stream_app.settings import Settings
from stream_app.wire import Event, Forget, Topics, decode_entry
from stream_app.wire.state_records import StateOrigin
from tests.fixtures.streams import Published, events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.kafka.conftest import Send
from tests.kafka.state_log import Log

pytestmark = pytest.mark.kafka
Answer = tuple[int, Any]
ROUNDS = 5


@pytest.fixture
def published(rng: np.random.Generator) -> list[Event]:
    """Give the events of a few devices."""
    return events(rng, 200, devices=12)


@pytest.fixture
def log(settings: Settings, send: Send, published: list[Event]) -> Log:
    """Give a log of five rounds."""
    made = Log(settings, send)
    made.rounds([publish(event) for event in published], ROUNDS)
    return made


@pytest.fixture
def forget(log: Log, capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Give a function that runs the command and returns exit code and JSON, or the sentence."""

    def ran(*arguments: str) -> Answer:
        where = ["--bootstrap", log.servers, "--prefix", log.names.prefix, "--json"]
        code = run(["forget", *arguments, *where])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, json.loads(captured.out) if captured.out else captured.err.strip()

    return ran


@pytest.fixture
def other(settings: Settings) -> Iterator[Log]:
    """Give an empty log of another deployment, with the same settings."""
    assert settings.bootstrap_servers is not None
    names = Topics(f"{settings.topic_prefix}-other")
    admin = clients.admin(Connection(settings.bootstrap_servers))
    create(admin, names.table())
    producer = clients.producer(Connection(settings.bootstrap_servers))

    def send(records: list[Published]) -> None:
        for record in records:
            producer.produce(names.ratings, record.value, record.key, record.partition)
        assert producer.flush(PATIENCE_SECONDS) == 0

    yield Log(settings.model_copy(update={"topic_prefix": names.prefix}), send)  # type: ignore[arg-type]
    delete(admin, [topic.name for topic in names.table()])


def test_a_device_is_forgotten_by_an_entry_of_the_cut_log(
    log: Log, forget: Callable[..., Answer], published: list[Event]
) -> None:
    device = published[-1].device
    before = log.replayed().replica
    code, receipt = forget("--device", device.hex().upper(), "--yes")
    assert (code, receipt["log"]) == (0, log.names.cuts)
    assert receipt["erased"].startswith("its vector, biases and numbers, its later reports")
    assert "what its reports taught, answered lists" in receipt["not_taken_back"]
    entries = topic_follower.records(Connection(log.servers), log.names.cuts)
    written = {each.offset(): decode_entry(each.value()) for each in entries}
    assert written[receipt["offset"]] == Forget(device.hex())
    past = history(log.deployment)
    assert past.forgets == ((ROUNDS + 1, Forget(device.hex())),)
    assert log.replayed().replica.model_digest() == before.model_digest(), "no cut came since"
    again = replace(published[-1], seq=published[-1].seq + 1)
    log.round([publish(again)])
    after = log.replayed().replica
    assert after.ledger.rejected() == {"forgotten": 1}
    assert after.model_digest() != before.model_digest()
    assert log.replayed(ROUNDS).replica.model_digest() == before.model_digest()


def test_a_rebuilt_state_is_that_of_a_log_in_which_the_device_never_was(
    log: Log, other: Log, forget: Callable[..., Answer], published: list[Event]
) -> None:
    device = published[0].device
    code, rebuilt_state = forget("--device", device.hex(), "--rebuild", "--yes")
    assert code == 0
    assert (rebuilt_state["cut"], rebuilt_state["base"]["without"]) == (ROUNDS, [device.hex()])
    log.cut(log.end_offsets)
    rebuilt = log.replayed().replica
    assert rebuilt.origin.excluded == (device.hex(),)
    assert rebuilt.model_digest() == rebuilt_state["model_digest"]
    size = -(-len(published) // ROUNDS)
    for first in range(0, len(published), size):
        kept = [e for e in published[first : first + size] if e.device != device]
        other.round([publish(event) for event in kept])
    never = other.replayed().replica
    assert rebuilt.model_digest() == never.model_digest()
    assert rebuilt.ledger.rejected() == {"forgotten": sum(e.device == device for e in published)}
    assert rebuilt.model_digest() != log.replayed(ROUNDS).replica.model_digest()


def test_a_state_that_goes_on_from_a_checkpoint_begins_again_without_the_device(
    log: Log, forget: Callable[..., Answer], published: list[Event]
) -> None:
    first, second = published[0].device.hex(), published[1].device.hex()
    state = log.replayed(2)
    write_checkpoint(log.deployment, state.replica, state.cut_offset, "test")
    assert forget("--device", first, "--rebuild", "--yes")[0] == 0
    log.cut(log.end_offsets)
    log.entry(Forget(second, rebuild=True))
    log.cut(log.end_offsets)
    replica = log.replayed().replica
    assert replica.origin.excluded == tuple(sorted({first, second}))
    assert replica.cut == log.number
    direct = log.replayed(origin=StateOrigin(0, (0,) * 4, excluded=replica.origin.excluded)).replica
    assert direct.model_digest() == replica.model_digest()
    assert direct.ledger_digest() == replica.ledger_digest()


def test_without_a_yes_nothing_is_forgotten_where_no_terminal_can_ask(
    log: Log, forget: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, sentence = forget("--device", "0" * 32)
    assert code == 1
    assert "add --yes" in sentence
    assert history(log.deployment).forgets == ()


def test_a_rebuild_is_refused_where_the_log_does_not_reach_back(
    log: Log, forget: Callable[..., Answer], published: list[Event]
) -> None:
    admin = clients.admin(log.connection)
    places = [
        TopicPartition(log.names.ratings, p, end) for p, end in enumerate(log.cuts[0].end_offsets)
    ]
    for future in admin.delete_records(places).values():
        future.result(10)
    code, sentence = forget("--device", published[0].device.hex(), "--rebuild", "--yes")
    assert code == 1
    assert "the log cannot be replayed: restore the topic, or forget" in sentence
    assert history(log.deployment).forgets == ()


@pytest.mark.parametrize("device", ["", "xyz", "0" * 31, "0" * 33, "g" * 32])
def test_what_is_no_pseudonym_is_refused(
    device: str, capsys: pytest.CaptureFixture[str], environment: Callable[..., None]
) -> None:
    assert run(["forget", "--device", device]) == 2
    assert "a pseudonym has 32 hex characters" in capsys.readouterr().err
