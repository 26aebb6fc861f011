"""A worker whose state is behind the log: it answers from the state it has and marks the answer as
catching up; and it forgets a device while others run."""

from __future__ import annotations

import json

import numpy as np
import pytest

from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.deployment import new_replica
from stream_app.kafka import clients
from stream_app.settings import Settings
from stream_app.wire import Cut, Topics, decode_many, encode_message
from tests.conftest import Kafka
from tests.faults.conftest import Command, Oracle, Proof, digests, stop
from tests.fixtures.cut_log import cuts
from tests.fixtures.given_worker import given_worker
from tests.fixtures.small_worker import opened
from tests.fixtures.streams import Published, events, log, publish, run_of
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Send, Start, ends_of

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]


def test_queries_are_answered_from_the_checkpoint_while_the_log_is_replayed(
    start: Start,
    send: Send,
    proof: Proof,
    rng: np.random.Generator,
    kafka: Kafka,
    names: Topics,
) -> None:
    """A cut that names records which are not there yet holds the replay open for as long as
    wanted."""
    records = [publish(event) for event in events(rng, 400)]
    first = start()
    send(records[:200])
    first.wait_for(ends_of(records[:200]))
    stop(first)
    send(records[200:300])
    last = cuts(kafka, names)[-1].number
    producer = clients.producer(kafka.connection)
    producer.produce(
        names.cuts, value=encode_message(Cut(last + 1, tuple(ends_of(records)), 20_000))
    )
    assert producer.flush(PATIENCE_SECONDS) == 0
    second = start(ready=False)
    until(lambda: "replaying" in page(second, "/readyz").get("waiting_for", ""), "a replay")
    ready = page(second, "/readyz")
    assert ready["ready"] is False
    assert "200 of 300 records" in ready["waiting_for"]
    device = records[0].key
    assert device is not None
    with given_worker(kafka.connection, names.prefix) as ask:
        answer = ask.ask(second, device.decode(), 3)
    assert answer.catching_up is True
    assert answer.as_of == last
    assert all(item is not None for item in answer.items[:3])
    assert second.metrics()["ready"] == 0
    send(records[300:])
    second.wait_until_ready()
    with given_worker(kafka.connection, names.prefix) as ask:
        answer = ask.ask(second, device.decode(), 3)
    assert answer.catching_up is False
    assert answer.as_of > last
    proof(second.wait_for(ends_of(records)))


def page(worker: WorkerProcess, path: str) -> dict:  # type: ignore[type-arg]
    """Return a page as JSON, {} if the worker does not answer."""
    try:
        found: dict[str, object] = json.loads(worker.get(path, 5))
    except OSError:
        return {}
    return found


@pytest.mark.parametrize("rebuild", [False, True], ids=["plain", "rebuild"])
def test_a_device_is_forgotten_by_two_workers_and_by_every_later_one(
    start: Start,
    send: Send,
    oracle: Oracle,
    command: Command,
    rng: np.random.Generator,
    kafka: Kafka,
    names: Topics,
    settings: Settings,
    rebuild: bool,
) -> None:
    made = events(rng, 500, devices=12)
    records, device = [publish(event) for event in made], made[0].device
    workers = [start(), start()]
    send(records[:300])
    for worker in workers:
        worker.wait_for(ends_of(records[:300]))
    code, output = command(
        "forget", "--device", device.hex(), "--yes", *(["--rebuild"] if rebuild else [])
    )
    assert code == 0, output
    send(records[300:400])
    end_offsets = ends_of(records[:400])
    for worker in workers:
        state = worker.wait_for(end_offsets)
        worker.wait_until_ready()
        state = worker.wait_for(end_offsets)
        assert digests(oracle(state["cut"])) == (state["model_digest"], state["ledger_digest"])
        assert state["rejected"].get("forgotten", 0) > 0
    if rebuild:
        assert state["model_digest"] == without(
            device, records, kafka, names, settings, state["cut"]
        )
    workers[0].process.kill()
    workers[0].process.wait()
    stop(workers[1])
    again = start()
    send(records[400:])
    state = again.wait_for(ends_of(records))
    assert digests(oracle(state["cut"])) == (state["model_digest"], state["ledger_digest"])
    if rebuild:
        assert state["model_digest"] == without(
            device, records, kafka, names, settings, state["cut"]
        )
    code, output = command("state", "verify", "--worker", again.url)
    assert code == 0, output


def without(
    device: bytes,
    records: list[Published],
    kafka: Kafka,
    names: Topics,
    settings: Settings,
    at_cut: int,
) -> str:
    """Return the model digest of the same rounds of a log in which the device never was."""
    replica = new_replica(opened(settings))
    before: tuple[int, ...] = (0, 0, 0, 0)
    name = device.hex().encode()
    for cut in cuts(kafka, names):
        for p, part in enumerate(log(records)):
            kept = [r for r in part[before[p] : cut.end_offsets[p]] if r.key != name]
            if kept:
                replica.apply(decode_many(run_of(kept, 0, len(kept), p), replica.spec.intake))
        replica.end_round(cut.number, cut.end_offsets)
        before = cut.end_offsets
        if cut.number == at_cut:
            break
    return replica.model_digest()
