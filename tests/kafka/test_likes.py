"""Devices that report likes, by epoch, to a real worker: what is sent, learned, and recomputed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import TopicPartition

from producers.journal import read_journal
from stream_app.cli import run
from stream_app.deployment import Deployment
from stream_app.kafka import clients
from stream_app.replay.recompute import Replay
from stream_app.settings import load
from stream_app.wire import PARTITIONS, Topics
from tests.conftest import Kafka
from tests.fixtures.small_worker import opened
from tests.kafka.conftest import SMALL, Start

pytestmark = pytest.mark.kafka
USERS, SCOPE = 40, 50


def ends_of(kafka: Kafka, topics: str) -> list[int]:
    """Return the end offset of each partition of the ratings."""
    reader = clients.consumer(kafka.connection, group="test-likes")
    try:
        places = [TopicPartition(Topics(topics).ratings, p) for p in range(PARTITIONS)]
        return [clients.offsets(reader, place, 10)[1] for place in places]
    finally:
        reader.close()


@pytest.mark.parametrize("mechanism", ["like", "like:5:2:4"])
def test_an_epoch_of_likes_is_learned_and_recomputed(
    mechanism: str,
    start: Start,
    kafka: Kafka,
    topics: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    id = mechanism if ":" in mechanism else f"{mechanism}:5:2"
    monkeypatch.setitem(SMALL, "MURMUREC_MECHANISMS", id)
    monkeypatch.setenv("MURMUREC_MECHANISMS", id)
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(5)
    pairs = random.permutation(USERS * SCOPE)[:600]
    np.savez("mine.npz", user=pairs // SCOPE, item=pairs % SCOPE, rating=random.integers(1, 6, 600))
    Path("scope.txt").write_text("\n".join(map(str, range(SCOPE))))
    where = ["--bootstrap", kafka.bootstrap, "--prefix", topics]
    worker = start()
    replay = ["replay", "mine.npz", "--mechanism", mechanism, "--emission", "epoch"]
    replay += ["--scope", "scope.txt", "--scale", "1", "5", "1", "--journal", "device.journal"]
    assert run([*replay, *where, "--json"]) == 0
    output = capsys.readouterr()
    row = json.loads(output.out.splitlines()[-1])
    assert (row["reports"], row["events_accepted"]) == (USERS * SCOPE, USERS)
    assert "whether it is a like" in output.err
    state = worker.wait_for(ends_of(kafka, topics))
    counts = state["counts"]
    assert counts["applied"] == USERS
    learned = counts["ratings_learned"] + counts["ratings_held_out"]
    assert learned == USERS * SCOPE  # a bit of every cell
    assert run(["state", "verify", *where, "--json"]) == 0
    capsys.readouterr()
    spec = opened(load(bootstrap_servers=kafka.bootstrap, topic_prefix=topics))
    replay = Replay(Deployment(kafka.connection, Topics(topics), spec))
    again = replay.from_origin(None, state["cut"])
    assert again.replica.model_digest() == state["model_digest"]
    accounts = read_journal("device.journal").book.accounts.values()
    spent = [account.by_adjacency()["cell"] for account in accounts]
    assert {(each.reports, each.nano) for each in spent} == {(SCOPE, 2 * SCOPE * 10**9)}
