"""Options that name a worker's starting state, repeated at every restart: applied once, and never
with less data than the log holds. A log without workers."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from confluent_kafka import TopicPartition

from stream_app.checkpoints import snapshot_file
from stream_app.checkpoints.offline_writer import write_checkpoint
from stream_app.cli import run
from stream_app.cli.device.publishers import publisher_for
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka import topic_admin as topics
from stream_app.operations import adopt as beginning
from stream_app.operations import rebuild as rebuilding
from stream_app.operations.session import Session
from stream_app.replay.cut_history import check_origin
from stream_app.replay.positions import resolve_origin
from stream_app.replay.recompute import Replay, Replayed
from stream_app.settings import Settings
from stream_app.wire import DigestReport, Event, Forget, Rejection
from stream_app.wire.state_records import Manifest, StateOrigin
from tests.fixtures.streams import Published, events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.kafka.conftest import Send
from tests.kafka.state_log import Log

pytestmark = pytest.mark.kafka


@pytest.fixture
def published(rng: np.random.Generator) -> list[Event]:
    """Give the events of a few devices."""
    return events(rng, 120, devices=8)


@pytest.fixture
def log(
    settings: Settings,
    send: Send,
    published: list[Event],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Log:
    """Give a log of four rounds."""
    monkeypatch.setenv("MURMUREC_DATA_DIR", str(tmp_path / "data"))
    made = Log(settings.model_copy(update={"data_dir": tmp_path / "data"}), send)
    made.rounds([publish(event) for event in published], 4)
    return made


def held(log: Log) -> Manifest:
    """Return the newest checkpoint."""
    found = Session.from_settings(log.settings).checkpoint()
    assert found is not None
    return found.manifest


def checkpoint(log: Log, at_cut: int) -> Manifest:
    """Write the state at a cut as a checkpoint."""
    state = log.replayed(at_cut)
    return write_checkpoint(log.deployment, state.replica, state.cut_offset, "test")


def remove(log: Log, end_offsets: tuple[int, ...]) -> None:
    """Let Kafka remove the ratings before these offsets, as retention does."""
    ratings = log.names.ratings
    places = [TopicPartition(ratings, p, end) for p, end in enumerate(end_offsets) if end]
    admin = clients.admin(log.connection)
    for future in admin.delete_records(places).values():
        future.result(10)


def digest_report(log: Log, manifest: Manifest) -> None:
    """Append the digest report of a durable checkpoint."""
    log.entry(
        DigestReport(
            manifest.cut, manifest.model, manifest.ledger, manifest.design, manifest.origin.digest
        )
    )


def state_topic_is_lost(log: Log) -> None:
    """Delete the state topic and create it again, empty."""
    admin = clients.admin(log.connection)
    topics.delete(admin, [log.names.state])
    topics.create(admin, log.names.table())


def test_a_file_is_adopted_once_and_again_on_request(
    log: Log, published: list[Event], tmp_path: Path
) -> None:
    file = tmp_path / "good.npz"
    snapshot_file.write(file, log.replayed(2).replica)
    beginning.from_snapshot(Session.from_settings(log.settings), file)
    first = held(log)
    assert (first.cut, first.origin.snapshot) == (4, snapshot_file.read(file).digest)
    log.round([publish(event) for event in published[:3]])
    beginning.from_snapshot(Session.from_settings(log.settings), file)  # as a supervisor does
    assert held(log) == first
    where = ["--bootstrap", log.servers, "--prefix", log.names.prefix]
    rebuild = ["state", "rebuild", *where, "--at-newest-cut"]
    assert run(rebuild) == 2
    assert run([*rebuild, "--snapshot", str(file), "--json"]) == 0
    assert held(log).generation > first.generation
    assert held(log).model == first.model


def test_a_gap_that_was_accepted_is_not_widened(log: Log) -> None:
    beginning.over_a_gap(Session.from_settings(log.settings), "last=12")
    first = held(log)
    assert first.origin.truncated
    beginning.over_a_gap(Session.from_settings(log.settings), "latest")
    assert held(log) == first


@pytest.mark.thorough
def test_a_device_is_forgotten_also_where_retention_has_passed_before_the_workers_came_to_it(
    log: Log, published: list[Event]
) -> None:
    before, device = checkpoint(log, 3), published[0].device
    log.entry(Forget(device.hex(), rebuild=True))
    log.cut(log.end_offsets)
    remove(log, before.end_offsets)
    beginning.over_a_gap(Session.from_settings(log.settings), "")
    after = held(log)
    assert (after.cut, after.end_offsets, after.origin.truncated) == (
        before.cut,
        before.end_offsets,
        True,
    )
    assert after.origin.excluded == (device.hex(),)
    (file,) = (log.settings.data_dir / "gaps").glob("*.npz")
    snapshot = snapshot_file.read(file)
    wanted = Session.from_settings(log.settings, file)
    with wanted.replay() as replay:
        replica = replay.from_origin(after.origin).replica
    assert replica.origin == after.origin, "no worker has to begin again"
    assert snapshot.meta.model == before.model != after.model
    words = np.frombuffer(device, "<u8").reshape(1, 2).astype(np.uint64)
    assert replica.marks.find(words).tolist() == [0]
    beginning.over_a_gap(Session.from_settings(log.settings), "")
    assert held(log) == after


@pytest.mark.thorough
def test_a_lost_state_topic_is_not_replaced_by_another_state(
    log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    beginning.over_a_gap(Session.from_settings(log.settings), "last=12")
    digest_report(log, held(log))
    state_topic_is_lost(log)
    session = Session.from_settings(log.settings)
    deployment = session.deployment
    with pytest.raises(UserError, match=r"--from-snapshot FILE.*--accept-gap or --rebuild"):
        check_origin(deployment)
    where = ["--bootstrap", log.servers, "--prefix", log.names.prefix, "--json"]
    assert run(["state", "digest", *where]) == 1
    capsys.readouterr()
    assert run(["state", "verify", *where]) == 0
    assert any(
        "the checkpoint is lost" in what for what in json.loads(capsys.readouterr().out)["missing"]
    )
    beginning.over_a_gap(session, "")
    assert held(log).origin == StateOrigin(0, (0, 0, 0, 0))
    digest_report(log, held(log))
    check_origin(deployment)


def test_a_damaged_checkpoint_is_given_up_where_a_place_is_named(
    log: Log, published: list[Event]
) -> None:
    origin, _ = resolve_origin(log.deployment, "last=12")
    log.round([publish(event) for event in published])
    state = log.replayed(origin=origin)
    assert state.replica.origin.truncated
    write_checkpoint(log.deployment, state.replica, state.cut_offset, "test")
    adopted = held(log)
    page = next(
        key
        for key in keys_of(log)
        if key[:1] == b"P" and key[-8:] == adopted.generation.to_bytes(8)
    )
    producer = clients.producer(log.connection)
    producer.produce(log.names.state, key=page, value=b"\1" + bytes(9))
    assert producer.flush(PATIENCE_SECONDS) == 0
    with pytest.raises(UserError, match=r"the newest checkpoint .* is damaged"):
        beginning.over_a_gap(Session.from_settings(log.settings), "")
    beginning.over_a_gap(Session.from_settings(log.settings), "last=12")
    assert held(log).generation > adopted.generation


def keys_of(log: Log) -> list[bytes]:
    """Return the keys of the state topic."""
    from stream_app.kafka import topic_follower

    return [
        message.key() or b"" for message in topic_follower.records(log.connection, log.names.state)
    ]


def test_a_rebuild_reports_every_rejected_record(log: Log, send: Send) -> None:
    poison = Published(2, b"f" * 32, b"poison")
    log.round([poison])
    rebuilding.rebuild(Session.from_settings(log.settings))
    reader = clients.consumer(log.connection, group=f"{log.names.prefix}-test")
    reader.assign([TopicPartition(log.names.rejected, 0, 0)])
    try:
        message = reader.poll(20)
    finally:
        reader.close()
    assert message is not None
    rejection = msgspec.json.decode(message.value() or b"", type=Rejection)
    assert (rejection.topic, rejection.partition, rejection.offset) == (
        log.names.ratings,
        2,
        log.end_offsets[2] - 1,
    )
    assert held(log).cut == 5


def test_no_checkpoint_passes_a_rejection_that_could_not_be_published(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.round([Published(2, b"f" * 32, b"poison")])
    session = Session.from_settings(log.settings)
    topics.delete(clients.admin(log.connection), [log.names.rejected])
    with pytest.raises(UserError, match="does not exist: create it"):
        Session.from_settings(log.settings)
    monkeypatch.setattr("stream_app.kafka.acknowledged_writer.STALL_SECONDS", 2.0)
    with pytest.raises(UserError, match="could not be written"):
        rebuilding.rebuild(session)
    topics.create(clients.admin(log.connection), log.names.table())
    assert Session.from_settings(log.settings).checkpoint() is None


def test_a_worker_that_came_during_the_replay_keeps_its_state(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = clients.consumer(log.connection, group=Session.from_settings(log.settings).group)
    replayed = Replay.from_origin

    def and_a_worker_comes(self: Replay, origin: StateOrigin | None = None) -> Replayed:
        state = replayed(self, origin)
        member.subscribe([log.names.cuts])
        while not member.assignment():
            member.poll(0.1)
        return state

    monkeypatch.setattr(Replay, "from_origin", and_a_worker_comes)
    try:
        with pytest.raises(UserError, match="stop them first"):
            rebuilding.rebuild(Session.from_settings(log.settings))
    finally:
        member.close()
    assert Session.from_settings(log.settings).checkpoint() is None


def test_a_device_need_not_know_how_long_the_server_keeps_reports(log: Log) -> None:
    hour = log.settings.model_copy(update={"ratings_retention_seconds": 3600.0})
    step = topics.plan(clients.admin(log.connection), log.names.table(4, 3600.0))
    topics.apply(clients.admin(log.connection), step, delete_records=True)
    with pytest.raises(UserError, match="ratings would be deleted sooner"):
        Session.from_settings(log.settings)
    assert Session.from_settings(hour)
    assert publisher_for(log.settings)
    with pytest.raises(UserError, match="has 4 partitions, not 8"):
        publisher_for(log.settings.model_copy(update={"partitions": 8}))
