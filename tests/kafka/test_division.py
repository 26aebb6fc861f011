"""`murmurec state shards` on a real broker: a deployment is divided without a replay, and what its
log holds behind the division is read by the shard of each device, once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_app.checkpoints.checkpoint_reader import read_checkpoint
from stream_app.checkpoints.design_in_force import in_force
from stream_app.checkpoints.offline_writer import append, write_checkpoint
from stream_app.cli import run
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.deployment import Deployment
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_admin import delete
from stream_app.operations import redesign
from stream_app.operations.session import Session, each_shard, of_device
from stream_app.replay.cut_history import history
from stream_app.settings import Settings
from stream_app.wire import Cut, Forget, Topics, encode_message
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Send, Start, ends_of
from tests.kafka.state_log import Log

pytestmark = pytest.mark.kafka
Answer = tuple[int, list[Any] | str]


@pytest.fixture(autouse=True)
def alone(settings: Settings) -> None:
    """Leave a deployment of one without the topic between shards, as murmurec topics apply does."""
    names, connection = Topics(settings.topic_prefix), Connection(settings.servers)
    delete(clients.admin(connection), [names.exchange])


@pytest.fixture
def log(settings: Settings, send: Send, rng: np.random.Generator) -> Log:
    """Give a log of four rounds, with a checkpoint of the third cut."""
    made = Log(settings, send)
    made.rounds([publish(event) for event in events(rng, 160, devices=20)], 4)
    third = made.replayed(3)
    write_checkpoint(made.deployment, third.replica, third.cut_offset, "test")
    return made


@contextmanager
def ended(worker: WorkerProcess) -> Iterator[WorkerProcess]:
    """Give a worker, and stop it at the end of the block as a user does."""
    yield worker
    worker.process.terminate()
    assert worker.process.wait(PATIENCE_SECONDS) == 0


@pytest.fixture
def murmurec(
    settings: Settings,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Callable[..., Answer]:
    """Give a function that runs a command with so many shards; it returns the exit code and a JSON
    value for each line, or the sentence."""
    monkeypatch.setenv("MURMUREC_DATA_DIR", str(tmp_path))

    def ran(shards: int, *command: str, shard: int | None = None) -> Answer:
        monkeypatch.setenv("MURMUREC_SHARDS", str(shards))
        monkeypatch.delenv("MURMUREC_SHARD", raising=False)
        if shard is not None:
            monkeypatch.setenv("MURMUREC_SHARD", str(shard))
        where = ["--bootstrap", settings.servers, "--prefix", settings.topic_prefix, "--json"]
        code = run([*command, *where])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        lines = [line for line in captured.out.splitlines() if line.startswith("{")]
        return code, [json.loads(line) for line in lines] if lines else captured.err.strip()

    return ran


@pytest.mark.thorough
def test_a_state_is_divided_and_its_shards_go_on(
    log: Log, murmurec: Callable[..., Answer], rng: np.random.Generator
) -> None:
    code, (found,) = murmurec(1, "state", "shards", "--to", "4")
    assert code == 0, found
    assert (found["cut"], found["former"]) == (4, [log.names.cuts, log.names.state])
    of_shards = log.settings.model_copy(update={"shards": 4})
    with pytest.raises(Exception, match="name one"):
        Session.from_settings(of_shards)
    code, verified = murmurec(4, "state", "verify", "--strict", "--snapshot", found["snapshot"])
    assert code == 0, verified
    for shard, each in enumerate(verified):
        assert each["shard"] == shard
        assert each["base"]["origin"] == found["digest"]
        assert any("the share of shard" in what for what in each["compared"])
        assert any("with the log" in what for what in each["compared"])

    device = events(rng, 1, devices=20)[0].device
    behind = [publish(each) for each in events(rng, 160, devices=30)]
    log.send(behind)
    counts = [sum(record.partition == p for record in behind) for p in range(4)]
    for settings in each_shard(of_shards):
        own, deployment = settings.shard or 0, Deployment.from_settings(settings)
        (first, _), *more = history(deployment).cuts
        assert (first.end_offsets, more) == (log.end_offsets, [])
        ends = list(first.end_offsets)
        ends[own] += counts[own]
        cut = Cut(2, tuple(ends), 0, deployment.spec.digest)
        append(deployment.connection, deployment.topics.cuts, encode_message(cut))
    code, states = murmurec(4, "state", "digest", "--snapshot", found["snapshot"])
    assert code == 0, states
    assert [each["cut"] for each in states] == [2] * 4
    read = [sum(each["counts"][k] for k in ("applied", "duplicate", "rejected")) for each in states]
    assert read == counts
    # Its log alone begins with the division: the partitions of the others are not read.
    code, (own,) = murmurec(4, "state", "digest", "--from", "earliest", shard=1)
    assert (code, own["shard"], own["cut"], own["base"]["gap"]) == (0, 1, 2, True)

    planned = redesign.plans(of_shards.model_copy(update={"clip": 4.0, "shard": 2}))
    redesign.apply_all(planned)
    for settings in each_shard(of_shards):
        assert in_force(Deployment.from_settings(settings)).newest.clip == 4.0
    other = {"seen_bytes": 2 * of_shards.seen_bytes}, {"factors": 16}
    beside, wider = (of_shards.model_copy(update={"clip": 4.0, **each}) for each in other)
    for target, rebuild, words in (
        (beside, "beside", "from its log alone"),
        (beside, "checkpoint", "with shards = 4"),
        (wider, "beside", "factors 8 -> 16: changes between shards are of rows with so many"),
    ):
        with pytest.raises(UserError, match=words):
            redesign.apply_all(redesign.plans(target), rebuild)

    code, (forgotten,) = murmurec(4, "forget", "--device", device.hex(), "--yes")
    assert code == 0, forgotten
    shard = of_device(of_shards, device.hex()).shard
    for settings in each_shard(of_shards):
        entries = history(Deployment.from_settings(settings)).forgets
        assert [e.device for _, e in entries] == [device.hex()] * (settings.shard == shard)
    code, sentence = murmurec(4, "forget", "--device", device.hex(), "--rebuild", "--yes")
    assert (code, "without --rebuild" in sentence) == (1, True)
    code, sentence = murmurec(4, "state", "export", str(log.settings.data_dir / "one.npz"))
    assert (code, "name one" in sentence) == (1, True)
    code, sentence = murmurec(1, "state", "shards", "--to", "4")
    assert (code, "was divided before" in sentence) == (1, True)
    code, sentence = murmurec(1, "state", "shards", "--to", "2")
    assert (code, "set shards to 4" in sentence) == (1, True)


@pytest.mark.nightly
def test_workers_of_shards_go_on_where_one_worker_ended(
    settings: Settings,
    send: Send,
    start: Start,
    murmurec: Callable[..., Answer],
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One worker learns, its state is divided, four learn on and exchange, and each state is that
    of its log."""
    sent = [publish(each) for each in events(rng, 400, devices=60)]
    before, behind, after = sent[:200], sent[200:240], sent[240:]
    group = ["--group", settings.topic_prefix]
    with ended(start()) as alone:
        send(before)
        alone.wait_for(ends_of(before))
    code, sentence = murmurec(1, "state", "shards", "--to", "4", *group)
    assert code == 0, sentence
    assert isinstance(sentence, list)
    found = sentence[0]
    send(behind)  # while no worker runs
    monkeypatch.setenv("MURMUREC_SHARDS", "4")
    ends = ends_of(before)
    with ExitStack() as stack:
        workers = [
            stack.enter_context(ended(start("--shard", str(shard), ready=False)))
            for shard in range(4)
        ]
        for worker in workers:
            worker.wait_until_ready()
        send(after)
        total = ends_of(sent)
        for shard, worker in enumerate(workers):
            own = [total[p] if p == shard else end for p, end in enumerate(ends)]
            assert worker.wait_for(own)["counts"]["applied"] > 0

        def exchanged() -> bool:
            states = [worker.state() for worker in workers]
            merged = {tuple(each["merged"]) for each in states}
            return len(merged) == 1 and all(min(each) > 0 for each in merged)

        until(exchanged, "each has merged a change of each")
    code, verified = murmurec(4, "state", "verify", "--strict", "--snapshot", found["snapshot"])
    assert code == 0, verified
    assert all("digest reports with the log" in str(each["compared"]) for each in verified)


@pytest.mark.nightly
def test_a_division_that_ended_in_between_is_taken_up(
    log: Log, murmurec: Callable[..., Answer]
) -> None:
    """The same call again writes what is missing; none of a log with a waiting entry."""
    waiting = Forget(bytes(16).hex())
    assert murmurec(1, "state", "shards", "--to", "2")[0] == 0
    assert murmurec(1, "state", "shards", "--to", "2")[0] == 0
    settings = log.settings.model_copy(update={"shards": 2, "shard": 1})
    checkpoint = read_checkpoint(Deployment.from_settings(settings))
    assert checkpoint is not None
    assert checkpoint.replica.spec == replace(log.deployment.spec, shards=2, shard=1)
    log.entry(waiting)
    code, sentence = murmurec(1, "state", "shards", "--to", "2")
    assert (code, "waits for a cut" in sentence) == (1, True)
    code, sentence = murmurec(1, "state", "shards", "--to", "3")
    assert (code, "must divide partitions" in sentence) == (1, True)
