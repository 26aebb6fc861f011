"""A log that no longer reaches back: a checkpoint carries the state over; without a checkpoint a
worker refuses, unless an option accepts the gap, which is recorded permanently."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from stream_app.kafka.topic_admin import create
from stream_app.state.replica import Replica
from stream_app.wire import Topics
from tests.faults.conftest import Command, Flow, another_checkpoint, digests, remove, sentence, stop
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.kafka.conftest import Send, Start, ends_of

pytestmark = pytest.mark.kafka


def forget_before(admin: AdminClient, topic: str, end_offsets: list[int]) -> None:
    """Delete what lies before these positions, as retention does."""
    places = [TopicPartition(topic, p, end) for p, end in enumerate(end_offsets)]
    for place, future in admin.delete_records(places).items():
        assert future.result(timeout=PATIENCE_SECONDS).low_watermark == end_offsets[place.partition]


@pytest.mark.thorough
def test_a_checkpoint_carries_the_state_over_ratings_that_are_gone(
    start: Start,
    flow: Flow,
    replayed: Callable[..., Replica],
    command: Command,
    rng: np.random.Generator,
    admin: AdminClient,
    names: Topics,
) -> None:
    records = [publish(event) for event in events(rng, 500)]
    worker = start()
    with flow(records[:200]):
        another_checkpoint(worker)
    state = worker.wait_for(ends_of(records[:200]))
    stop(worker)
    forget_before(admin, names.ratings, state["positions"])
    worker = start()
    same = worker.state()
    for name in ("cut", "positions", "model_digest", "ledger_digest", "counts"):
        assert same[name] == state[name]
    with flow(records[200:]):
        another_checkpoint(worker)
    state = worker.wait_for(ends_of(records))
    assert state["base"]["gap"] is False
    assert digests(replayed(records, state["cut"])) == (
        state["model_digest"],
        state["ledger_digest"],
    )
    code, output = command("state", "verify")
    assert code == 0, output


@pytest.mark.thorough
def test_without_checkpoint_and_log_a_worker_refuses_until_the_gap_is_accepted_and_recorded(
    start: Start,
    send: Send,
    flow: Flow,
    command: Command,
    rng: np.random.Generator,
    admin: AdminClient,
    names: Topics,
) -> None:
    records = [publish(event) for event in events(rng, 500)]
    worker = start()
    send(records[:200])
    state = worker.wait_for(ends_of(records[:200]))
    assert command("state", "verify")[0] == 0
    stop(worker)
    forget_before(admin, names.ratings, state["positions"])
    remove(admin, names.state)
    create(admin, names.table())
    assert "--accept-gap" in sentence(start(ready=False))
    worker = start("--accept-gap")
    assert worker.state()["base"]["gap"] is True
    with flow(records[200:400]):
        another_checkpoint(worker)
    state = worker.wait_for(ends_of(records[:400]))
    stop(worker)
    worker = start()
    same = worker.state()
    for name in ("cut", "positions", "model_digest", "ledger_digest", "base"):
        assert same[name] == state[name]
    assert same["base"]["gap"] is True
    send(records[400:])
    state = worker.wait_for(ends_of(records))
    assert state["counts"]["applied"] == 300
    code, output = command("state", "verify")
    assert code == 0, output


@pytest.mark.nightly
def test_a_gap_behind_a_checkpoint_is_accepted_and_the_model_goes_on(
    start: Start,
    send: Send,
    command: Command,
    rng: np.random.Generator,
    admin: AdminClient,
    names: Topics,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ratings came while no worker ran, and were gone before one did."""
    monkeypatch.setenv("MURMUREC_DATA_DIR", str(tmp_path / "data"))
    records = [publish(event) for event in events(rng, 400)]
    worker = start()
    send(records[:200])
    before = worker.wait_for(ends_of(records[:200]))
    stop(worker)
    send(records[200:300])
    forget_before(admin, names.ratings, ends_of(records[:300]))
    assert "--accept-gap" in sentence(start(ready=False))
    worker = start("--accept-gap")
    state = worker.state()
    assert state["base"]["gap"] is True
    assert state["positions"] == ends_of(records[:300])
    assert state["model_digest"] == before["model_digest"]
    send(records[300:])
    worker.wait_for(ends_of(records))
    stop(worker)
    (snapshot,) = (tmp_path / "data" / "gaps").iterdir()
    code, output = command("state", "verify", "--strict", "--snapshot", str(snapshot))
    assert code == 0, output
    assert "with the log" in output
