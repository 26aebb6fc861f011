"""Profiles of real device commands, read by real workers: neighbours, and hostile records."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stream_app.cli import run
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.kafka import clients, topic_follower
from stream_app.wire import (
    LIST_LENGTH,
    CatalogueEntry,
    ProfileEvent,
    Rejection,
    Topics,
    decode_message,
    encode_message,
)
from stream_app.wire import encode_profile as encode
from tests.conftest import Kafka
from tests.fixtures.gateway_beside import served
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Start

pytestmark = pytest.mark.kafka
ID = "blip:2000:2:24"
OTHER = "blip:2000:2:12"  # not allowed
USERS, ITEMS = 24, 30


@pytest.fixture
def names(environment: Callable[..., None], kafka: Kafka, topics: str) -> Topics:
    """Work in an empty folder, as an operator and a device of one deployment, with two tastes."""
    environment(
        MURMUREC_BOOTSTRAP_SERVERS=kafka.bootstrap,
        MURMUREC_TOPIC_PREFIX=topics,
        MURMUREC_DEVICE_JOURNAL="device.journal",
        MURMUREC_PROFILE_MECHANISMS=ID,
    )
    cells = [
        (user, item + (ITEMS if user % 2 else 0))
        for user in range(USERS)
        for item in range(ITEMS)
        if (user // 2 + item) % 3
    ]
    rows = "".join(f"u{user},{item},5\n" for user, item in cells)
    Path("two.csv").write_text("user,item,rating\n" + rows)
    names, producer = Topics(topics), clients.producer(kafka.connection, linger_ms=0)
    for item in range(2 * ITEMS):
        entry = encode_message(CatalogueEntry(item, f"title {item}"))
        producer.produce(names.items, key=str(item).encode(), value=entry)
    assert producer.flush(PATIENCE_SECONDS) == 0
    return names


@pytest.fixture
def publish(capsys: pytest.CaptureFixture[str]) -> Callable[..., None]:
    """Give a function that publishes the profiles of the file under a mechanism."""

    def published(mechanism: str, journal: str = "device.journal") -> None:
        asked = ["profiles", "publish", "two.csv", "--mechanism", mechanism]
        code = run([*asked, "--journal", journal, "--json"])
        captured = capsys.readouterr()
        assert code == 0, captured.err
        assert json.loads(captured.out)["events_accepted"] == USERS

    return published


def read(worker: WorkerProcess, records: int) -> dict[str, Any]:
    """Return the part of /state about profiles when so many records were read."""
    found: dict[str, Any] = {}

    def all_read() -> bool:
        found.update(worker.state()["profiles"])
        return bool(found["complete"]) and found["read"] >= records

    until(all_read, f"{records} records of profiles were read")
    assert found["read"] == records
    return found


def test_neighbours_are_served_from_profiles_of_real_devices(
    names: Topics,
    publish: Callable[..., None],
    start: Start,
    kafka: Kafka,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publish(ID)
    worker = start()
    state = read(worker, USERS)
    assert (state["devices"], state["applied"], state["mechanisms"]) == (USERS, USERS, [ID])
    answer: dict[str, Any] = {}

    def answered() -> bool:
        assert run(["ask", "--neighbours", "--user", "u3", "-k", "8", "--json"]) == 0
        answer.update(json.loads(capsys.readouterr().out))
        return len(answer["items"]) == 8

    until(answered, "the catalogue is read")
    assert sum(ITEMS <= row["item"] < 2 * ITEMS for row in answer["items"]) >= 7
    assert answer["method"] == f"neighbours/{ID}"
    assert answer["guarantee"]["epsilon"] == "24"
    assert "one item of the profile of one device" in answer["guarantee"]["adjacency"]
    assert all(0 <= row["score"] <= 1 for row in answer["items"])
    with served(kafka.bootstrap, names.prefix) as gateway:
        address = ["--http", "--url", gateway.url]
        assert run(["ask", "--neighbours", "--user", "u4", *address]) == 0
    shown = capsys.readouterr().out
    assert "the share of similar devices that have the item" in shown
    assert "epsilon 24" in shown
    # A device that never released a profile, and one under a mechanism that is not allowed.
    assert run(["ask", "--neighbours", "--device", "0" * 32]) == 1
    assert "no profile of this device is known" in capsys.readouterr().err
    Path("elsewhere").mkdir()
    # A device refuses what its own settings do not allow; these are not the worker's.
    monkeypatch.setenv("MURMUREC_PROFILE_MECHANISMS", f"{ID},{OTHER}")
    publish(OTHER, "elsewhere/device.journal")
    state = read(worker, 2 * USERS)
    assert (state["rejected"], state["reasons"]) == (
        USERS,
        {"mechanism_not_allowed": USERS},
    )
    assert (state["devices"], state["applied"]) == (USERS, USERS)
    samples = worker.metrics()
    assert samples["profiles_rejected_total{reason=mechanism_not_allowed}"] == USERS
    assert len(rejections(names)) == USERS


@pytest.mark.thorough
def test_hostile_records_change_nothing_and_a_forgotten_device_has_no_profile(
    names: Topics,
    publish: Callable[..., None],
    start: Start,
    kafka: Kafka,
    capsys: pytest.CaptureFixture[str],
) -> None:
    publish(ID)
    worker = start()
    read(worker, USERS)
    before: list[Any] = []

    def answered() -> bool:
        assert run(["ask", "--neighbours", "--user", "u0", "-k", str(LIST_LENGTH), "--json"]) == 0
        before[:] = json.loads(capsys.readouterr().out)["items"]
        return len(before) == 2 * ITEMS

    until(answered, "the catalogue is read")
    victim = _pseudonym("u0")
    right = ProfileEvent(victim, 2**62, ID, 20_000, b"\xff" * 250)
    event = ProfileEvent(b"\x07" * 16, 1, ID, 20_000, b"\x00" * 250)
    hostile = [
        (right.key, b""),
        (right.key, b"\x00" * 70_000),
        (right.key, encode(right)[:-1]),
        (event.key, encode(right)),
        (right.key, encode(ProfileEvent(victim, 1, ID, 20_000, b"\x00" * 251))),
        (right.key, encode(ProfileEvent(victim, 1, ID, 20_000, b"\x00" * 250, True))),
    ]
    producer = clients.producer(kafka.connection, linger_ms=0)
    for key, value in hostile:
        producer.produce(names.profiles, key=key, value=value)
    assert producer.flush(PATIENCE_SECONDS) == 0
    state = read(worker, USERS + len(hostile))
    assert (state["rejected"], state["devices"]) == (len(hostile), USERS)
    reasons = {"empty", "too_large", "malformed", "key_mismatch", "length_mismatch", "test_event"}
    assert set(state["reasons"]) == reasons
    assert run(["ask", "--neighbours", "--user", "u0", "-k", str(LIST_LENGTH), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == before
    assert run(["forget", "--device", victim.hex(), "--yes", "--json"]) == 0
    capsys.readouterr()
    until(lambda: worker.state()["profiles"]["devices"] == USERS - 1, "the profile is dropped")
    assert run(["ask", "--neighbours", "--user", "u0"]) == 1
    assert "no profile of this device is known" in capsys.readouterr().err
    # What comes in its name later, here and in a worker that reads from the beginning.
    producer.produce(names.profiles, key=right.key, value=encode(right))
    assert producer.flush(PATIENCE_SECONDS) == 0
    again = start()
    for each in (worker, again):
        until(
            lambda each=each: (
                each.state()["profiles"]["reasons"].get("forgotten") == 1
                or each.state()["profiles"]["devices"] == USERS - 1
            ),
            "the record of the forgotten device has no effect",
        )
        assert each.state()["profiles"]["devices"] == USERS - 1
    *_, last = [
        record
        for record in topic_follower.records(kafka.connection, names.profiles)
        if not record.value()
    ]
    assert last.key() == right.key


def _pseudonym(user: str) -> bytes:
    from producers.journal import read_key
    from producers.pseudonyms import pseudonym

    return pseudonym(read_key("device.journal"), user)


def rejections(names: Topics) -> list[Rejection]:
    """Return the entries of the topic of rejections about profiles."""
    from stream_app.cli.options import connection_from
    from stream_app.settings import load

    found = [
        decode_message(Rejection, record.value())
        for record in topic_follower.records(connection_from(load()), names.rejected)
    ]
    return [each for each in found if each.topic == names.profiles]
