"""`murmurec audit canary` on a real broker: devices of known ratings under their own prefix."""

from __future__ import annotations

import json

import numpy as np
import pytest

from producers.device.requests import ReportSettings, request
from producers.identities import Identities
from producers.journal import Journal, PersonBudget
from stream_app.cli import run
from stream_app.kafka import clients
from stream_app.privacy import registry
from stream_app.wire import Topics
from tests.conftest import Kafka
from tests.consumers.audit.worlds import RR, World
from tests.kafka.test_audit_wire import publish

pytestmark = pytest.mark.kafka


def test_a_device_program_is_tested_by_what_it_sends(
    kafka: Kafka, topics: str, capsys: pytest.CaptureFixture[str], tmp_path
) -> None:
    """Enrolled devices of a journal pass; a program that draws rr:5:3 as rr:5:2 does not."""
    command = ["audit", "canary", "--bootstrap", kafka.bootstrap, "--prefix", topics]
    command += ["--allow", RR.id]
    name, producer = Topics(topics).ratings, clients.producer(kafka.connection)
    honest, false, world = [], [], World(1)
    with Journal.open(tmp_path / "device.journal") as journal:
        named = Identities(journal.key)
        for level in range(5):
            device = named.pseudonym(f"canary {level}")
            journal.enrol([device], PersonBudget(), 1)
            made = request(
                np.full(5, level, np.uint8), list(range(1, 6)), ReportSettings(name, RR),
                device=device, epoch=1,
            )  # fmt: skip
            for message in journal.release(made):
                clients.send(producer, name, key=message.key, value=message.value)
            honest += ["--canary", f"{device.hex()}:{level}"]
            other, items = world.device(), np.arange(200, dtype=np.uint64)
            drawn_by = registry.parse("rr:5:3")
            world.send(other, items, np.full(200, level, np.uint8), drawn_by=drawn_by)
            false += ["--canary", f"{other.hex()}:{level}"]
    assert producer.flush(30) == 0
    publish(kafka, topics, world.records)
    assert run([*command, *honest, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [row["verdict"] for row in found] == ["ok", "ok"]
    assert "from 25 reports" in found[0]["measured"]
    assert run([*command, *false]) == 1
    shown = capsys.readouterr()
    assert "rr:5:2: canaries show no epsilon above 2 (at least 2." in shown.err
    assert run([*command, "--canary", f"{bytes(16).hex()}:0"]) == 1
    assert "nothing was tested" in capsys.readouterr().err
