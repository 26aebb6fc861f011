"""Frozen, doubled and rival workers: a worker that wakes up late, or runs beside another with the
same right, does no harm."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.kafka import topic_follower
from stream_app.wire import Topics, WireError
from stream_app.wire.state_records import ManifestKey, decode_manifest, decode_state_key
from tests.conftest import Kafka
from tests.faults.conftest import Flow, Oracle, Proof, digests, durable_cut, stop
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Send, Start, ends_of

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]
_TAKEN_AWAY = 75


@pytest.mark.nightly
def test_an_owner_frozen_for_longer_than_its_session_wakes_up_and_harms_no_checkpoint(
    start: Start,
    send: Send,
    flow: Flow,
    oracle: Oracle,
    proof: Proof,
    rng: np.random.Generator,
    kafka: Kafka,
    names: Topics,
) -> None:
    records = [publish(event) for event in events(rng, 500)]
    workers = [start(), start()]
    with flow(records[:100]):
        until(lambda: max(map(durable_cut, workers)) > 0, "a checkpoint")
    states = [worker.wait_for(ends_of(records[:100])) for worker in workers]
    owner, other = workers if states[0]["clock"] else workers[::-1]
    os.kill(owner.process.pid, signal.SIGSTOP)
    send(records[100:300])
    other.wait_for(ends_of(records[:300]))
    before = other.state()["cut"]
    with flow(records[300:350]):
        until(lambda: durable_cut(other) >= before, "a checkpoint of the new owner")
    os.kill(owner.process.pid, signal.SIGCONT)
    send(records[350:450])
    for worker in (owner, other):
        state = worker.wait_for(ends_of(records[:450]))
        assert digests(oracle(state["cut"])) == (state["model_digest"], state["ledger_digest"])
    assert len(generations(kafka, names)) >= 2
    owner.process.kill()
    stop(other)
    again = start()
    send(records[450:])
    proof(again.wait_for(ends_of(records)))


def generations(kafka: Kafka, names: Topics) -> set[int]:
    """Return the generations that have a manifest."""
    found = set()
    for message in topic_follower.records(kafka.connection, names.state):
        try:
            key = decode_state_key(message.key())
        except WireError:
            continue
        value = message.value()
        if isinstance(key, ManifestKey) and value:
            assert decode_manifest(value).generation == key.generation
            found.add(key.generation)
    return found


def test_a_static_worker_frozen_until_its_twin_has_its_place_ends_with_the_reason(
    start: Start,
    send: Send,
    proof: Proof,
    rng: np.random.Generator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = [publish(event) for event in events(rng, 300)]
    monkeypatch.setenv("MURMUREC_DATA_DIR", str(tmp_path / "one machine"))
    frozen = start("--instance", "one")
    send(records[:100])
    frozen.wait_for(ends_of(records[:100]))
    os.kill(frozen.process.pid, signal.SIGSTOP)
    monkeypatch.setenv("MURMUREC_DATA_DIR", str(tmp_path / "another machine"))
    twin = start("--instance", "one")
    send(records[100:200])
    twin.wait_for(ends_of(records[:200]))
    os.kill(frozen.process.pid, signal.SIGCONT)
    assert frozen.process.wait(PATIENCE_SECONDS) == _TAKEN_AWAY
    logged = frozen.log.read_text()
    # A thread that reads what the twin has written may still log a line after the reason.
    said = [line for line in logged.splitlines() if not line.startswith("{")]
    assert "instance one" in said[-1]
    assert "Traceback" not in logged
    send(records[200:])
    state = twin.wait_for(ends_of(records))
    assert state["clock"]
    proof(state)


def test_two_workers_of_one_identity_on_one_machine_the_second_does_not_start(
    start: Start, send: Send, proof: Proof, rng: np.random.Generator
) -> None:
    records = [publish(event) for event in events(rng, 100)]
    first = start("--instance", "one")
    second = start("--instance", "one", ready=False)
    assert second.process.wait(PATIENCE_SECONDS) == 1
    logged = second.log.read_text().strip().splitlines()
    assert "instance one" in logged[-1]
    assert "runs already on this machine" in logged[-1]
    assert not any("Traceback" in line for line in logged)
    send(records)
    proof(first.wait_for(ends_of(records)))


def test_two_workers_of_one_identity_on_two_machines_one_goes_on(
    start: Start,
    send: Send,
    proof: Proof,
    rng: np.random.Generator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = [publish(event) for event in events(rng, 200)]
    workers: list[WorkerProcess] = []
    for machine in ("one machine", "another machine"):
        monkeypatch.setenv("MURMUREC_DATA_DIR", str(tmp_path / machine))
        workers.append(start("--instance", "one", ready=not workers))
    send(records[:100])
    until(lambda: any(w.process.poll() is not None for w in workers), "one of the twins ends")
    loser, winner = sorted(workers, key=lambda worker: worker.process.poll() is None)
    assert loser.process.returncode == _TAKEN_AWAY
    logged = loser.log.read_text().strip().splitlines()
    assert logged[-1].startswith("murmurec: instance one")
    assert not any("Traceback" in line for line in logged)
    winner.wait_until_ready()
    send(records[100:])
    proof(winner.wait_for(ends_of(records)))


def test_two_clocks_at_once_in_two_groups_write_checkpoints_of_one_state(
    start: Start,
    send: Send,
    oracle: Oracle,
    proof: Proof,
    rng: np.random.Generator,
    kafka: Kafka,
    names: Topics,
) -> None:
    """Each owns what its own group knows of; both append cuts to one log and pages to one topic."""
    records = [publish(event) for event in events(rng, 600)]
    workers = [start("--group", f"{names.prefix}-{name}") for name in ("one", "two")]
    for worker in workers:  # the other one's cuts make it ready, before its own group has formed
        until(lambda w=worker: w.state()["clock"], "it owns the clock of its group")
    for part in range(4):
        send(records[part * 100 : part * 100 + 100])
        for worker in workers:
            state = worker.wait_for(ends_of(records[: part * 100 + 100]))
            assert digests(oracle(state["cut"])) == (state["model_digest"], state["ledger_digest"])
    until(lambda: len(generations(kafka, names)) >= 2, "both have written a checkpoint")
    for worker in workers:
        worker.process.kill()
        worker.process.wait()
    send(records[400:500])
    again = start()
    assert '"checkpoint": true' in again.log.read_text()
    send(records[500:])
    proof(again.wait_for(ends_of(records)))
