"""A forged record in a device's name, on a real broker: what it costs where devices sign, and where
they do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from murmurec import Device
from stream_app.cli import run
from stream_app.state.replica import Replica
from stream_app.wire import Event, Topics, encode
from stream_app.wire.signatures import SigningKey
from tests.conftest import Kafka
from tests.fixtures.signed_devices import signed
from tests.fixtures.streams import Published, partition_of, publish
from tests.kafka.conftest import Send, Start

pytestmark = pytest.mark.kafka
FIRST, MANY = 5, 60


@pytest.fixture
def signatures_required(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set it before any other fixture reads the settings."""
    monkeypatch.setenv("MURMUREC_DEVICES", "signed")


def in_the_name_of(victim: str, seq: int) -> Event:
    items, reports = np.arange(1, dtype=np.uint64), np.zeros(1, np.uint8)
    return Event(bytes.fromhex(victim), seq, "rr:5:2", 20_000, items, reports)


def rate(device: Device, kafka: Kafka, items: range) -> None:
    for item in items:
        device.rate(item, 4)
    assert device.publish(kafka.connection) == len(items)


def ends(victim: str, many: int) -> list[int]:
    """Return the end offsets where every record is the victim's."""
    home = partition_of(victim.encode())
    return [many * (p == home) for p in range(4)]


def test_nobody_else_can_use_the_name_of_a_device_that_signs(
    signatures_required: None,
    kafka: Kafka,
    topics: str,
    start: Start,
    send: Send,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    oracle: Callable[..., Replica],
) -> None:
    worker = start()
    forger = SigningKey.from_seed(b"f" * 32)
    with Device("ann", tmp_path / "journal", prefix=topics).sign().enrol(10_000) as device:
        rate(device, kafka, range(FIRST))
        event = in_the_name_of(device.pseudonym, 10**6)
        envelope = forger.seal(Topics(topics).ratings, encode(event))
        home = partition_of(event.key)
        send([publish(event), Published(home, event.key, envelope)])
        rate(device, kafka, range(FIRST, MANY))
        own = signed(event, forger, topic=Topics(topics).ratings)
        send([own])
        expected = [
            count + (p == own.partition) for p, count in enumerate(ends(device.pseudonym, MANY + 2))
        ]
        state = worker.wait_for(expected)
    assert state["counts"]["applied"] == MANY + 1
    assert state["rejected"] == {"bad_signature": 2}
    assert state["model_digest"] == oracle().model_digest()
    where = ["--bootstrap", kafka.bootstrap, "--prefix", topics, "--json"]
    assert run(["state", "verify", *where]) == 0
    assert json.loads(capsys.readouterr().out)["differences"] == []


@pytest.mark.thorough
def test_a_forged_number_costs_an_open_device_one_event_at_most(
    kafka: Kafka,
    topics: str,
    start: Start,
    send: Send,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An open server takes signed events too; to require signatures takes a new deployment."""
    worker = start()
    with Device("ann", tmp_path / "journal", prefix=topics).enrol(10_000) as device:
        rate(device, kafka, range(FIRST))
        send([publish(in_the_name_of(device.pseudonym, 10**6))])
        rate(device, kafka, range(FIRST, MANY))
        state = worker.wait_for(ends(device.pseudonym, MANY + 1))
    assert state["rejected"] == {"seq_jump": 1}
    assert state["counts"]["duplicate"] == 0
    assert state["counts"]["applied"] == MANY
    with Device("bob", tmp_path / "other", prefix=topics).sign().enrol(10_000) as device:
        rate(device, kafka, range(FIRST))
        own = ends(device.pseudonym, FIRST)
        state = worker.wait_for([a + b for a, b in zip(own, state["positions"], strict=True)])
    assert state["counts"]["applied"] == MANY + FIRST
    monkeypatch.setenv("MURMUREC_DEVICES", "signed")
    where = ["--bootstrap", kafka.bootstrap, "--prefix", topics, "--json"]
    assert run(["state", "digest", *where]) == 1
    assert "devices is open there and signed here" in " ".join(capsys.readouterr().err.split())
