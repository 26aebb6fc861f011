"""Settings change on a running deployment, by `murmurec config apply`: no worker stops, no record
is lost, and the log alone leads to the same state."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import TopicPartition

from stream_app.checkpoints import checkpoint_reader as reader
from stream_app.checkpoints.design_in_force import in_force
from stream_app.checkpoints.design_line import DesignLine
from stream_app.checkpoints.offline_writer import write_checkpoint
from stream_app.cli import run
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.kafka import clients
from stream_app.log.canonical_order import Start as Position
from stream_app.log.cut_chain import LEAST_MARGIN
from stream_app.operations.adopt import reseal
from stream_app.operations.session import Session
from stream_app.operations.verify import verify
from stream_app.replay.recompute import Replay, Replayed
from stream_app.settings import Settings
from stream_app.state.design import entry_of, following
from stream_app.state.replica import Replica
from stream_app.wire import Truncate
from stream_app.wire.authenticity.seal import Seal
from tests.fixtures.streams import Published, events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Send, Start
from tests.kafka.state_log import Log

pytestmark = pytest.mark.kafka
Apply = Callable[..., tuple[int, str]]


@pytest.fixture
def records(rng: np.random.Generator) -> list[Published]:
    return [publish(event) for event in events(rng, 240, mechanism="rr:5:2")]


@pytest.fixture
def log(settings: Settings, send: Send, records: list[Published], tmp_path: Path) -> Log:
    """Give a log of three rounds and a checkpoint of the second."""
    made = Log(settings.model_copy(update={"data_dir": tmp_path}), send)
    made.rounds(records[:120], 3)
    state = made.replayed(2)
    write_checkpoint(made.deployment, state.replica, state.cut_offset, "test", tails=state.tails)
    return made


@pytest.fixture
def config(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Apply:
    """Give a function that runs `murmurec config` under changed settings; returns exit code and
    output."""

    def ran(*words: str, **changed: str) -> tuple[int, str]:
        with monkeypatch.context() as environment:
            for name, value in changed.items():
                environment.setenv(f"MURMUREC_{name.upper()}", value)
            where = ["--bootstrap", str(settings.bootstrap_servers)]
            code = run(["config", *words, *where, "--prefix", settings.topic_prefix])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.out + captured.err

    return ran


def digests(replica: Replica) -> tuple[str, str]:
    return replica.model_digest(), replica.ledger_digest()


def found(log: Log) -> reader.Checkpoint:
    checkpoint = reader.read_checkpoint(log.deployment)
    assert checkpoint is not None
    return checkpoint


def test_a_plan_shows_what_changes_how_and_what_cannot(log: Log, config: Apply) -> None:
    code, shown = config(
        "plan", "--json", mechanisms="rr:5:1,rr:5:2", tuning_clip="3", tuning_factors="16",
        devices="signed",
    )  # fmt: skip
    assert code == 0, shown
    ways = {row["setting"]: row["way"] for row in json.loads(shown)["changes"]}
    assert ways == {
        "clip": "in place", "factors": "beside", "devices": "fixed", "mechanisms": "in place",
    }  # fmt: skip
    code, shown = config("apply", devices="signed")
    assert code == 1
    assert "fixed for the life of a deployment (devices open -> signed" in " ".join(shown.split())
    code, shown = config("apply", tuning_factors="16")
    assert code == 1
    assert "murmurec config apply --rebuild beside" in " ".join(shown.split())
    newest = in_force(log.deployment).newest
    assert newest.factors == 8  # nothing was half applied


def test_a_log_without_a_cut_has_no_design(config: Apply) -> None:
    code, shown = config("plan")
    assert code == 1
    assert "no design is in force yet" in " ".join(shown.split())


def test_a_change_in_place_is_part_of_the_log(
    log: Log, records: list[Published], config: Apply
) -> None:
    changed = {"tuning_clip": "1.5", "tuning_head_items": "4000", "mechanisms": "rr:5:2,rr:5:1"}
    code, shown = config("apply", **changed)
    assert code == 0, shown
    log.rounds(records[120:], 3)
    replayed = log.replayed().replica
    assert (replayed.spec.clip, replayed.spec.head_items) == (1.5, 4000)
    assert [m.id for m in replayed.spec.mechanisms][-1] == "rr:5:1"
    # From the checkpoint before the entry the same state follows, and at an old cut the old one is.
    session = Session.from_settings(log.settings)
    assert session.spec == replayed.spec
    assert log.replayed(3).replica.spec.clip == float("inf")
    checkpoint = found(log)
    assert checkpoint.replica.spec.clip == float("inf")
    with session.replay() as replay:
        begun = Replayed(checkpoint.replica, checkpoint.manifest.cut_offset)
        on = replay.go_on(begun, Position.after(checkpoint.manifest)).replica
    assert digests(on) == digests(replayed)
    write_checkpoint(log.deployment, on, log_offset(log), "test")
    assert found(log).replica.spec == replayed.spec
    assert not verify(Session.from_settings(log.settings)).differences
    code, shown = config("apply", **changed)
    assert (code, "nothing differs" in shown) == (0, True)


def log_offset(log: Log) -> int:
    return log.replayed().cut_offset


def test_a_withdrawn_mechanism_is_rejected_from_the_entry_on(
    log: Log, rng: np.random.Generator, config: Apply
) -> None:
    assert config("apply", mechanisms="rr:5:1")[0] == 0
    log.round([publish(event) for event in events(rng, 40, mechanism="rr:5:2")])
    ledger = log.replayed().replica.ledger
    assert ledger.rejected() == {"mechanism_not_allowed": 40}
    assert ledger.counts()["applied"] == 120


def test_a_state_built_beside_takes_over_with_its_entry_and_not_before(
    log: Log, records: list[Published], config: Apply
) -> None:
    before = in_force(log.deployment).newest
    target = following(replace(before, factors=16), before)
    own = replace(log.deployment, spec=target)
    state = Replay(own, line=DesignLine(target)).from_origin()
    write_checkpoint(own, state.replica, state.cut_offset, "test", beside=True)
    assert found(log).replica.spec.factors == 8  # its entry is missing
    code, shown = config("apply", "--rebuild", "beside", tuning_factors="16")
    assert code == 0, shown
    assert found(log).replica.spec.factors == 16
    assert found(log).manifest.cut == 3
    assert not verify(Session.from_settings(log.settings)).differences
    log.rounds(records[120:], 2)
    replayed = log.replayed().replica
    assert replayed.spec.factors == 16
    assert log.replayed(3).replica.spec.factors == 8
    with Session.from_settings(log.settings).replay() as replay:
        checkpoint = found(log)
        begun = Replayed(checkpoint.replica, checkpoint.manifest.cut_offset)
        on = replay.go_on(begun, Position.after(checkpoint.manifest)).replica
    assert digests(on) == digests(replayed)
    assert on.ledger.counts()["applied"] == len(records)


@pytest.mark.thorough
def test_what_was_withdrawn_before_stays_withdrawn_in_a_state_built_beside(
    log: Log, records: list[Published], rng: np.random.Generator, config: Apply
) -> None:
    assert config("apply", mechanisms="none:5:inf")[0] == 0
    log.round(records[120:160])  # rejected
    code, shown = config(
        "apply", "--rebuild", "beside", mechanisms="none:5:inf", tuning_factors="16"
    )
    assert code == 0, shown
    assert in_force(log.deployment).first.factors == 16
    log.round([publish(event) for event in events(rng, 40, mechanism="none:5:inf")])
    checkpoint, replayed = found(log), log.replayed().replica
    assert replayed.ledger.rejected() == {"mechanism_not_allowed": 40}
    assert replayed.ledger.counts()["applied"] == 160
    begun = Replayed(checkpoint.replica, checkpoint.manifest.cut_offset)
    on = Replay(log.deployment).go_on(begun, Position.after(checkpoint.manifest)).replica
    assert digests(on) == digests(replayed)


@pytest.mark.thorough
def test_a_truncation_behind_a_checkpoint_of_a_second_state_takes_its_design_back(
    log: Log, records: list[Published], config: Apply
) -> None:
    assert config("apply", "--rebuild", "beside", tuning_factors="16")[0] == 0
    log.round(records[120:])
    newest = log.number + 10 * LEAST_MARGIN
    log.entry(Truncate(2, newest))
    assert in_force(log.deployment).newest.factors == 8
    assert found(log).replica.spec.factors == 8
    log.number, log.end_offsets = newest, log.cuts[1].end_offsets
    log.cut(log.cuts[3].end_offsets)
    assert log.replayed().replica.spec.factors == 8


def test_two_states_beside_without_their_entry_leave_the_one_in_force(log: Log) -> None:
    target = replace(in_force(log.deployment).newest, factors=16)
    state = Replay(log.deployment, line=DesignLine(target)).from_origin()
    for _ in range(2):
        write_checkpoint(log.deployment, state.replica, state.cut_offset, "test", beside=True)
    assert found(log).manifest.cut == 2
    assert found(log).replica.spec.factors == 8


def test_a_secret_that_is_introduced_keeps_the_designs_before_it(
    log: Log, records: list[Published], config: Apply
) -> None:
    assert config("apply", tuning_clip="1.5")[0] == 0
    log.round(records[120:])
    secret = log.settings.model_copy(update={"state_secret": "s" * 40})
    state = log.replayed()
    write_checkpoint(log.deployment, state.replica, state.cut_offset, "test")
    sealed = Session.from_settings(secret)
    reseal(sealed)
    sealed = Session.from_settings(secret)
    assert sealed.spec.clip == 1.5
    assert not verify(sealed).differences


@pytest.mark.thorough
def test_a_short_log_carries_over_what_the_checkpoint_holds(
    log: Log, records: list[Published], config: Apply, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("MURMUREC_DATA_DIR", str(tmp_path))
    cut = found(log).manifest
    remove(log, tuple(end // 2 for end in cut.end_offsets))
    code, shown = config("apply", "--rebuild", "beside", tuning_factors="16")
    assert (code, "--rebuild checkpoint carries over" in " ".join(shown.split())) == (1, True)
    before = found(log).replica
    code, shown = config("apply", "--rebuild", "checkpoint", tuning_factors="16")
    assert code == 0, shown
    log.rounds(records[120:], 2)
    after = found(log)
    assert (after.replica.spec.factors, after.manifest.origin.cut) == (16, before.cut)
    assert len(after.replica.items) >= len(before.items)
    (file,) = (tmp_path / "designs").iterdir()
    state = Session.from_settings(log.settings, snapshot=file)
    with state.replay() as replay:
        whole = replay.from_origin(after.manifest.origin).replica
    begun = Replayed(after.replica, after.manifest.cut_offset)
    on = Replay(state.deployment).go_on(begun, Position.after(after.manifest)).replica
    assert digests(on) == digests(whole)
    assert on.ledger.counts()["applied"] + before.ledger.counts()["applied"] == len(records)


def remove(log: Log, ends: tuple[int, ...]) -> None:
    """Delete the beginning of the rating log, as retention does."""
    places = [TopicPartition(log.names.ratings, p, end) for p, end in enumerate(ends)]
    admin = clients.admin(log.connection)
    for future in admin.delete_records(places).values():
        future.result(timeout=PATIENCE_SECONDS)


def test_an_entry_without_the_seal_two_at_once_and_a_repeated_one_do_nothing(log: Log) -> None:
    sealed = replace(log.deployment, seal=Seal("s" * 32, log.names.prefix))
    before = in_force(log.deployment).newest
    first = entry_of(before, replace(before, clip=2.0))
    log.entry(first)
    log.entry(entry_of(before, replace(before, clip=3.0)))  # over the same design
    log.entry(first)
    assert in_force(log.deployment).newest.clip == 2.0
    assert Replay(sealed).from_origin(None, 3).replica.spec.clip == float("inf")
    assert in_force(sealed).newest.clip == float("inf")


def test_a_worker_takes_up_a_change_under_way_and_a_late_one_follows_the_log(
    start: Start, send: Send, records: list[Published], settings: Settings, config: Apply
) -> None:
    worker = start()
    send(records[:120])
    caught_up([worker], 120)
    code, shown = config(
        "apply", tuning_clip="2.5", mechanisms=",".join((*settings.mechanisms, "rr:5:1/2"))
    )
    assert code == 0, shown
    send(records[120:])
    caught_up([worker], 240)
    deployment = Session.from_settings(settings).deployment
    assert deployment.spec.clip == 2.5
    late = start()  # under the old settings: the log decides
    caught_up([late], 240)
    assert {w.state()["design_digest"] for w in (worker, late)} == {deployment.spec.digest}
    urls = (worker.url, late.url)
    assert not verify(Session.from_settings(settings), urls).differences
    assert "settings.differ" in late.log.read_text()


def caught_up(workers: list[WorkerProcess], count: int) -> None:
    until(
        lambda: all(w.state()["counts"]["applied"] == count for w in workers),
        f"both workers have applied {count} records",
    )
