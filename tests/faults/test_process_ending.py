"""How a worker ends: stopped, it writes a last checkpoint; by a defect, it never looks alive."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from contextlib import suppress

import numpy as np
import pytest

from stream_app.errors import UserError
from stream_app.kafka import topic_follower
from stream_app.wire import Topics
from stream_app.wire.state_records import decode_manifest
from tests.conftest import Kafka
from tests.faults.conftest import Flow, Proof
from tests.fixtures.cut_log import cuts
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Send, Start, ends_of

pytestmark = pytest.mark.kafka
NIGHTLY = pytest.mark.nightly
# Kubernetes kills what has not ended so long after SIGTERM; a quiet machine needs a fifth of it.
_GRACE_SECONDS = 30.0


def newest_checkpoint(kafka: Kafka, names: Topics) -> int:
    """Return the cut of the newest manifest of the state topic."""
    found = [
        decode_manifest(message.value())  # type: ignore[arg-type]
        for message in topic_follower.records(kafka.connection, names.state)
        if (message.key() or b"")[:1] == b"M" and message.value()
    ]
    return max(manifest.cut for manifest in found)


@pytest.mark.parametrize("word", [signal.SIGTERM, signal.SIGINT], ids=lambda s: s.name)
def test_a_worker_stopped_while_idle_leaves_a_checkpoint_of_the_newest_cut(
    start: Start,
    send: Send,
    proof: Proof,
    rng: np.random.Generator,
    kafka: Kafka,
    names: Topics,
    monkeypatch: pytest.MonkeyPatch,
    word: signal.Signals,
) -> None:
    monkeypatch.setenv("MURMUREC_TUNING_CHECKPOINT_SECONDS", "3600")  # only the last one is there
    records = [publish(event) for event in events(rng, 300)]
    worker = start()
    send(records[:100])
    worker.wait_for(ends_of(records[:100]))
    send(records[100:200])
    worker.wait_for(ends_of(records[:200]))
    began = time.monotonic()
    worker.process.send_signal(word)
    assert worker.process.wait(PATIENCE_SECONDS) == 0
    assert time.monotonic() - began < _GRACE_SECONDS
    assert newest_checkpoint(kafka, names) == cuts(kafka, names)[-1].number
    again = start()
    send(records[200:])
    proof(again.wait_for(ends_of(records)))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "twice",
    [pytest.param(False, id="once", marks=NIGHTLY), pytest.param(True, id="twice")],
)
def test_a_worker_stopped_under_load_leaves_a_checkpoint_of_the_newest_cut(
    start: Start,
    flow: Flow,
    proof: Proof,
    rng: np.random.Generator,
    kafka: Kafka,
    names: Topics,
    twice: bool,
) -> None:
    records = [publish(event) for event in events(rng, 600)]
    worker = start()
    with flow(records):
        until(lambda: worker.state()["cut"] > 5, "some cuts")
        began = time.monotonic()
        worker.process.terminate()
        if twice:
            threading.Event().wait(0.05)
            worker.process.terminate()
        assert worker.process.wait(PATIENCE_SECONDS) == 0
        seconds = time.monotonic() - began
        assert newest_checkpoint(kafka, names) == cuts(kafka, names)[-1].number
    assert seconds < _GRACE_SECONDS
    proof(start().wait_for(ends_of(records)))


def broken(module: str, owner: str, name: str, calls: int) -> str:
    """Return a program under which `owner.name` of a module fails after so many calls."""
    return (
        f"from {module} import {owner} as owner\n"
        f"whole, calls = owner.{name}, [0]\n"
        "def broken(*arguments, **named):\n"
        "    calls[0] += 1\n"
        f"    if calls[0] > {calls}:\n"
        f"        raise RuntimeError('a defect in {name}')\n"
        "    return whole(*arguments, **named)\n"
        f"owner.{name} = broken\n"
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("module", "owner", "name", "calls"),
    [
        ("stream_app.state.replica", "Replica", "end_round", 5),
        ("stream_app.checkpoints.state_image", "StateImage", "hash", 3),
        pytest.param(
            "stream_app.checkpoints.state_image",
            "StateImage",
            "freeze",
            3,
            marks=NIGHTLY,
        ),
        pytest.param(
            "stream_app.checkpoints.protocol.writer",
            "Writer",
            "step",
            20,
            marks=NIGHTLY,
        ),
        pytest.param("stream_app.replay.follower", "Follower", "poll", 50, marks=NIGHTLY),
        ("stream_app.monitoring.gauges", "Gauges", "publish", 3),
    ],
)
def test_a_defect_ends_the_process_non_zero_and_the_state_is_whole(
    start: Start,
    flow: Flow,
    proof: Proof,
    rng: np.random.Generator,
    module: str,
    owner: str,
    name: str,
    calls: int,
) -> None:
    records = [publish(event) for event in events(rng, 400)]
    worker = start(ready=False, before=broken(module, owner, name, calls))
    with suppress(UserError):
        worker.wait_until_ready()
    with flow(records):
        try:
            code = worker.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            pytest.fail(f"it looks alive: {worker.log.read_text()[-2000:]}")
    assert code not in (0, 75)
    assert f"a defect in {name}" in worker.log.read_text()
    proof(start().wait_for(ends_of(records)))
