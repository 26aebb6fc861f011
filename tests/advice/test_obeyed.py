"""What a refusal tells an operator to do, read from the program and done: no record is lost.

The deployment is a log of four rounds with a checkpoint, without a worker: a start asks the same
checks and writes the same checkpoints as these commands.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka.admin import NewPartitions

from stream_app.checkpoints.checkpoint_reader import DamagedCheckpoint
from stream_app.checkpoints.offline_writer import write_checkpoint
from stream_app.cli import run
from stream_app.kafka import clients, topic_admin, topic_follower
from stream_app.operations.session import Session
from stream_app.settings import Settings
from tests.faults.conftest import configure
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Send
from tests.kafka.state_log import Log

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]
Murmurec = Callable[..., tuple[int, str]]


@pytest.fixture
def log(
    settings: Settings,
    send: Send,
    rng: np.random.Generator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Log:
    """Give a log of four rounds, and a checkpoint of the third."""
    monkeypatch.setenv("MURMUREC_DATA_DIR", str(tmp_path / "data"))
    made = Log(settings.model_copy(update={"data_dir": tmp_path / "data"}), send)
    made.rounds([publish(event) for event in events(rng, 120)], 4)
    checkpoint(made, 3)
    return made


def checkpoint(log: Log, at_cut: int) -> None:
    """Write the state at a cut as a checkpoint."""
    state = log.replayed(at_cut)
    write_checkpoint(log.deployment, state.replica, state.cut_offset, "test")


@pytest.fixture
def murmurec(log: Log, capsys: pytest.CaptureFixture[str]) -> Murmurec:
    """Give a function that runs a command on the deployment and returns code and words."""

    def ran(*words: str, prefix: str = log.settings.topic_prefix) -> tuple[int, str]:
        capsys.readouterr()
        code = run([*words, "--bootstrap", log.servers, "--prefix", prefix])
        captured = capsys.readouterr()
        return code, " ".join((captured.out + captured.err).split())

    return ran


def applied(log: Log) -> int:
    """Return how many records the state of the log holds."""
    return int(log.replayed().replica.ledger.counts()["applied"])


def more_partitions(log: Log, topic: str) -> None:
    """Add a partition to an inner topic, as Kafka's own tool does."""
    admin = clients.admin(log.connection)
    for future in admin.create_partitions([NewPartitions(topic, 2)]).values():
        future.result(timeout=PATIENCE_SECONDS)
    until(lambda: topic_admin.partition_counts(admin, [topic])[topic] == 2, "they are listed")


@pytest.mark.nightly
def test_topics_apply_cures_what_it_is_named_for(log: Log, murmurec: Murmurec) -> None:
    admin, before = clients.admin(log.connection), applied(log)
    names = log.names
    for topic, name, value in (
        (names.ratings, "compression.type", "producer"),
        (names.ratings, "cleanup.policy", "compact"),
        (names.ratings, "retention.ms", "86400000"),
        (names.ratings, "max.message.bytes", "9000000"),
        (names.cuts, "retention.bytes", "1000000000"),
        (names.cuts, "compression.type", "zstd"),
        (names.cuts, "cleanup.policy", "compact"),
        (names.state, "cleanup.policy", "delete"),
        (names.state, "max.message.bytes", "100000"),
        (names.item_links, "compression.type", "producer"),
        (names.rejected, "compression.type", "gzip"),
    ):
        configure(admin, topic, name, value)
        code, said = murmurec("doctor")
        assert (code, f"{topic} has {name} {value}" in said) == (1, True), said
        assert "run murmurec topics apply, which sets it" in said
        code, said = murmurec("topics", "apply")
        if topic == names.state and name == "cleanup.policy":
            assert "setting it deletes records" in said  # pages that were written again
            code, said = murmurec("topics", "apply", "--delete-records")
        assert code == 0, said
        assert murmurec("doctor")[0] == 0
    topic_admin.delete(admin, [names.items])
    code, said = murmurec("doctor")
    assert f"topic {names.items} does not exist: create it with murmurec topics apply" in said
    assert murmurec("topics", "apply")[0] == 0
    assert murmurec("doctor")[0] == 0
    assert applied(log) == before
    assert murmurec("state", "verify")[0] == 0


def test_a_state_topic_with_added_partitions_is_made_again(log: Log, murmurec: Murmurec) -> None:
    before = applied(log)
    more_partitions(log, log.names.state)
    code, said = murmurec("state", "verify")
    assert code == 1
    assert "delete it and create it with murmurec topics apply, and the state is computed" in said
    topic_admin.delete(clients.admin(log.connection), [log.names.state])
    assert murmurec("topics", "apply")[0] == 0
    assert murmurec("state", "rebuild")[0] == 0
    assert murmurec("state", "verify")[0] == 0
    held = Session.from_settings(log.settings).checkpoint()
    assert held is not None
    assert held.replica.ledger.counts()["applied"] == before


def test_a_cut_log_with_added_partitions_is_left_for_a_new_prefix(
    log: Log, murmurec: Murmurec
) -> None:
    more_partitions(log, log.names.cuts)
    code, said = murmurec("state", "digest")
    assert code == 1
    assert "no partition can be removed; start a new deployment (--prefix)" in said
    ends = sum(log.end_offsets)
    other = f"{log.settings.topic_prefix}-new"
    assert murmurec("topics", "apply", prefix=other)[0] == 0
    assert murmurec("doctor", prefix=other)[0] == 0
    with topic_follower.TopicFollower(log.connection, "test") as reader:
        places = [(log.names.ratings, p) for p in range(4)]
        bounds = [
            clients.offsets(reader.consumer, topic_follower.TopicPartition(*place))
            for place in places
        ]
    assert sum(high - low for low, high in bounds) == ends  # the old log is as it was


def test_a_damaged_checkpoint_of_a_snapshot_is_recomputed_with_its_file(
    log: Log, murmurec: Murmurec, tmp_path: Path
) -> None:
    file = str(tmp_path / "good.npz")
    assert murmurec("state", "export", file, "--at-cut", "2")[0] == 0
    assert murmurec("state", "rebuild", "--snapshot", file, "--at-newest-cut")[0] == 0
    session = Session.from_settings(log.settings)
    good = session.checkpoint()
    assert good is not None
    assert good.manifest.cut == 4
    generation = good.manifest.generation.to_bytes(8)
    page = next(
        each.key()
        for each in topic_follower.records(log.connection, log.names.state)
        if each.key()[:1] == b"P" and each.key()[-8:] == generation
    )
    producer = clients.producer(log.connection)
    producer.produce(log.names.state, key=page, value=b"\1" + bytes(9))
    assert producer.flush(PATIENCE_SECONDS) == 0
    with pytest.raises(DamagedCheckpoint, match=r"`murmurec state rebuild`, with --snapshot FILE"):
        session.checkpoint()
    code, said = murmurec("state", "rebuild")
    assert code == 1
    assert "snapshot" in said
    assert murmurec("state", "rebuild", "--snapshot", file)[0] == 0
    code, said = murmurec("state", "verify")
    assert "give it with --snapshot FILE" in said
    assert murmurec("state", "verify", "--snapshot", file)[0] == 0
    again = session.checkpoint()
    assert again is not None
    assert again.replica.ledger.counts() == good.replica.ledger.counts()
    assert again.replica.model_digest() == good.replica.model_digest()
