"""`murmurec state` on a real broker: what the log leads to, and what is compared with it."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import TopicPartition

from stream_app.checkpoints import checkpoint_reader as changelog
from stream_app.checkpoints import snapshot_file
from stream_app.checkpoints.offline_writer import write_checkpoint
from stream_app.cli import run
from stream_app.deployment import spec_from_settings
from stream_app.kafka import clients
from stream_app.operations import log_replay as replaying
from stream_app.replay.positions import resolve_origin
from stream_app.replay.recompute import begin
from stream_app.settings import Settings
from stream_app.wire import DigestReport, Forget
from stream_app.wire.state_records import Manifest
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.kafka.conftest import Send
from tests.kafka.state_log import Log

pytestmark = pytest.mark.kafka
Answer = tuple[int, Any]


@pytest.fixture
def log(settings: Settings, send: Send, rng: np.random.Generator) -> Log:
    """Give a log of six rounds."""
    made = Log(settings, send)
    made.rounds([publish(event) for event in events(rng, 240)], 6)
    return made


@pytest.fixture
def murmurec(log: Log, capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Give a function that runs a sub-command of `state` and returns exit code and JSON, or the
    sentence."""

    def ran(command: str, *arguments: str) -> Answer:
        where = ["--bootstrap", log.servers, "--prefix", log.names.prefix, "--json"]
        code = run(["state", command, *arguments, *where])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, json.loads(captured.out) if captured.out else captured.err.strip()

    return ran


def checkpoint(log: Log, at_cut: int) -> Manifest:
    """Write the state at a cut as a checkpoint."""
    state = log.replayed(at_cut)
    return write_checkpoint(log.deployment, state.replica, state.cut_offset, "test")


def test_the_digest_is_that_of_the_log_at_the_cut(
    log: Log, murmurec: Callable[..., Answer]
) -> None:
    code, newest = murmurec("digest")
    assert code == 0
    assert (newest["cut"], newest["positions"]) == (6, list(log.end_offsets))
    assert newest["model_digest"] == log.replayed().replica.model_digest()
    code, third = murmurec("digest", "--at-cut", "3")
    assert third["cut"] == 3
    assert third["model_digest"] == log.replayed(3).replica.model_digest()
    assert third["model_digest"] != newest["model_digest"]
    code, sentence = murmurec("digest", "--at-cut", "7")
    assert code == 1
    assert "cut 7: the newest cut" in sentence


def test_a_correct_checkpoint_verifies_with_its_digest_reports(
    log: Log, murmurec: Callable[..., Answer]
) -> None:
    for cut in (2, 4):
        held = checkpoint(log, cut)
        log.entry(DigestReport(held.cut, held.model, held.ledger, held.design, held.origin.digest))
    log.entry(DigestReport(3, "0" * 32, "0" * 32, held.design, "0" * 32))
    code, found = murmurec("verify")
    assert code == 0, found
    assert found["cut"] == 4
    assert found["differences"] == []
    assert found["missing"] == ["1 digest reports are of another design or another origin"]
    assert [what.split(":")[0] for what in found["compared"]] == [
        "checkpoint at cut 4 with itself",
        "checkpoint at cut 4 with the log",
        "2 digest reports with the log",
    ]
    assert murmurec("verify", "--strict")[0] == 1


def test_a_checkpoint_that_differs_from_the_log_is_named_array_by_array(
    log: Log, murmurec: Callable[..., Answer]
) -> None:
    state = log.replayed(4)
    replica = state.replica
    name, array = next((n, a) for n, a in replica.model_arrays().items() if "frequencies" in n)
    array.reshape(-1).view(np.uint8)[0] ^= 1
    replica.ledger.gaps[2] += 1
    write_checkpoint(log.deployment, replica, state.cut_offset, "test")
    code, found = murmurec("verify")
    assert code == 1
    assert any(f"model {name}: 1 of " in what for what in found["differences"])
    assert any("ledger gaps: checkpoint" in what for what in found["differences"])
    assert len(found["differences"]) == 2


def test_a_digest_report_that_differs_from_the_log_is_named(
    log: Log, murmurec: Callable[..., Answer]
) -> None:
    held = checkpoint(log, 4)
    log.entry(DigestReport(2, "0" * 32, held.ledger, held.design, held.origin.digest))
    code, found = murmurec("verify")
    assert code == 1
    assert len(found["differences"]) == 2
    assert f"digest report of cut 2: model_digest {'0' * 32}, log" in found["differences"][0]


def test_without_a_checkpoint_verify_compares_nothing_and_reports_it(
    murmurec: Callable[..., Answer],
) -> None:
    code, found = murmurec("verify")
    assert code == 0
    assert found["compared"] == []
    assert "holds no checkpoint" in found["missing"][0]
    assert murmurec("verify", "--strict")[0] == 1


@contextmanager
def worker(state: dict[str, Any]) -> Iterator[str]:
    """Give the address of something that shows this state."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/state" else 404)
            self.end_headers()
            self.wfile.write(json.dumps(state).encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("cut", [2, 4, 6])
def test_a_worker_is_compared_at_its_own_cut(
    log: Log, murmurec: Callable[..., Answer], cut: int
) -> None:
    checkpoint(log, 4)
    state = replaying.summary(log.replayed(cut).replica)
    with worker(state) as url:
        code, found = murmurec("verify", "--worker", url)
    assert code == 0, found
    assert f"worker {url} at cut {cut} with the log" in found["compared"]
    with worker(state | {"model_digest": "0" * 32, "base": state["base"] | {"gap": True}}) as url:
        code, found = murmurec("verify", "--worker", url)
    assert code == 1
    assert [what.split(": ")[1].split()[0] for what in found["differences"]] == [
        "model_digest",
        "base",
    ]


def test_a_worker_before_the_base_is_reported_and_the_other_workers_are_compared(
    log: Log, murmurec: Callable[..., Answer]
) -> None:
    origin, start = resolve_origin(log.deployment, "last=12")
    replica = begin(spec_from_settings(log.settings), origin)
    write_checkpoint(log.deployment, replica, start.cut_offset, "test")
    before = replaying.summary(log.replayed(1).replica)
    right = replaying.summary(log.replayed(origin=origin).replica)
    with worker(before) as early, worker(right) as good:
        code, found = murmurec("verify", "--worker", early, "--worker", good)
    assert code == 0, found
    assert found["missing"] == [
        f"worker {early} is at cut 1, before the state begins (cut {origin.cut})"
    ]
    assert f"worker {good} at cut 6 with the log" in found["compared"]


def test_a_replay_that_begins_again_counts_every_digest_report_once(
    log: Log, murmurec: Callable[..., Answer]
) -> None:
    with_it = checkpoint(log, 4)
    log.entry(DigestReport(4, with_it.model, with_it.ledger, with_it.design, with_it.origin.digest))
    log.entry(DigestReport(3, "0" * 32, "0" * 32, with_it.design, "0" * 32))
    log.entry(Forget("0" * 32, rebuild=True))
    log.cut(log.end_offsets)
    after = log.replayed().replica
    digests = after.model_digest(), after.ledger_digest()
    log.entry(DigestReport(7, *digests, with_it.design, after.origin.digest))
    with worker(replaying.summary(after)) as url:
        code, found = murmurec("verify", "--worker", url)
    assert code == 0, found
    assert "2 digest reports with the log" in found["compared"]
    assert found["missing"] == ["1 digest reports are of another design or another origin"]


def test_a_log_that_no_longer_reaches_back_leaves_the_checkpoint_itself(
    log: Log, murmurec: Callable[..., Answer]
) -> None:
    held = checkpoint(log, 4)
    remove(log, held.end_offsets)
    code, found = murmurec("verify")
    assert code == 0
    assert "the log does not hold the records from the origin on" in found["missing"][0]
    assert [what.split(":")[0] for what in found["compared"]] == ["checkpoint at cut 4 with itself"]
    assert murmurec("verify", "--strict")[0] == 1
    code, sentence = murmurec("digest")
    assert code == 1
    assert "--accept-gap" in sentence


def remove(log: Log, end_offsets: tuple[int, ...]) -> None:
    """Let Kafka remove the ratings before these offsets, as retention does."""
    admin = clients.admin(log.connection)
    places = [TopicPartition(log.names.ratings, p, end) for p, end in enumerate(end_offsets)]
    for future in admin.delete_records(places).values():
        future.result(10)


@pytest.mark.thorough
def test_verify_and_rebuild_go_by_the_design_in_force_and_not_by_other_settings(
    log: Log, murmurec: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint(log, 4)
    monkeypatch.setenv("MURMUREC_TUNING_FACTORS", "16")
    assert murmurec("verify")[0] == 0
    code, rebuilt = murmurec("rebuild")
    assert code == 0
    assert rebuilt["cut"] == 6
    code, found = murmurec("verify", "--strict")
    assert code == 0
    wanted = log.replayed().replica.model_digest()
    assert found["model_digest"] == rebuilt["model_digest"] == wanted


def test_rebuild_refuses_while_a_worker_runs(log: Log, murmurec: Callable[..., Answer]) -> None:
    group = f"{log.names.prefix}-worker"
    member = clients.consumer(log.connection, group=group)
    member.subscribe([log.names.cuts])
    try:
        while not member.assignment():
            member.poll(0.1)
        code, sentence = murmurec("rebuild")
    finally:
        member.close()
    assert code == 1
    assert f"1 workers run in group {group}: stop them first" in sentence


def test_an_export_holds_the_state_at_the_cut(
    log: Log, murmurec: Callable[..., Answer], tmp_path: Path
) -> None:
    checkpoint(log, 4)
    code, newest = murmurec("export", str(tmp_path / "newest.npz"))
    assert code == 0
    assert (newest["cut"], newest["model_digest"]) == (6, log.replayed().replica.model_digest())
    code, second = murmurec("export", str(tmp_path / "second.npz"), "--at-cut", "2")
    held = snapshot_file.read(tmp_path / "second.npz")
    assert (held.meta.cut, held.meta.model) == (2, log.replayed(2).replica.model_digest())
    assert second["digest"] == held.digest


def test_a_replay_from_another_place_begins_at_the_next_cut(
    log: Log, murmurec: Callable[..., Answer]
) -> None:
    assert (
        murmurec("digest", "--from", "earliest")[1]["model_digest"]
        == log.replayed().replica.model_digest()
    )
    code, last = murmurec("digest", "--from", "last=12")
    assert code == 0
    assert last["base"]["gap"]
    wanted = [max(0, end - 12) for end in log.end_offsets]
    first = next(
        cut for cut in log.cuts if all(e >= w for e, w in zip(cut.end_offsets, wanted, strict=True))
    )
    assert last["base"]["cut"] == first.number
    counted = sum(log.end_offsets) - sum(first.end_offsets)
    assert last["counts"]["applied"] + last["counts"]["duplicate"] == counted
    assert murmurec("digest", "--from", "latest")[1]["base"]["cut"] == 6
    code, sentence = murmurec("digest", "--from", "yesterday")
    assert code == 1
    assert "'yesterday' is not a position in the log: write earliest, latest, ts=" in sentence


def test_what_the_state_topic_holds_is_shown(log: Log, murmurec: Callable[..., Answer]) -> None:
    first, second = checkpoint(log, 2), checkpoint(log, 4)
    producer = clients.producer(log.connection)
    producer.produce(log.names.state, key=b"stranger", value=b"x")
    producer.produce(log.names.state, key=b"P" + bytes(15), value=b"")
    assert producer.flush(PATIENCE_SECONDS) == 0
    code, found = murmurec("show")
    assert code == 0
    assert [each["generation"] for each in found["generations"]] == sorted(
        {first.generation, second.generation} | {0}
    )
    newest = found["generations"][-1]
    assert newest["worker"] == "test"
    assert [(c["number"], c["cut"]) for c in newest["checkpoints"]] == [(1, 4)]
    assert newest["pages"] > 0
    assert (found["foreign"], found["damaged"]) == (1, 1)


def test_a_checkpoint_that_was_written_is_read_back(log: Log) -> None:
    assert read_back(log) is None
    held = checkpoint(log, 4)
    assert read_back(log) == held


def read_back(log: Log) -> Manifest | None:
    progress: list[tuple[int, int]] = []
    found = changelog.read_checkpoint(
        log.deployment,
        lambda done, total: progress.append((done, total)),
    )
    assert progress[-1][0] == progress[-1][1]
    return found.manifest if found else None
