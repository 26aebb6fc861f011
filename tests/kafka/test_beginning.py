"""What a worker may begin from besides the newest checkpoint: a file, the log, a part of it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import TopicPartition

from stream_app.cli import run
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.kafka import clients
from stream_app.kafka import topic_admin as topics
from stream_app.settings import Settings
from stream_app.wire import Topics
from tests.conftest import Kafka
from tests.fixtures.campaigns import plan, planned
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.kafka.conftest import Send, Start, ends_of
from tests.kafka.state_log import Log

pytestmark = pytest.mark.kafka
Ask = Callable[..., dict[str, Any]]
FORMAT_4 = Path(__file__).parents[1] / "fixtures" / "state_format_4.npz.xz"


@pytest.fixture
def state(settings: Settings, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Give a function that runs `murmurec state ... --json` on these topics."""

    def asked(*arguments: str, prefix: str = settings.topic_prefix, code: int = 0) -> Any:
        capsys.readouterr()
        where = ["--bootstrap", str(settings.bootstrap_servers), "--prefix", prefix]
        ended = run(["state", *arguments, *where, "--json"])
        captured = capsys.readouterr()
        assert ended == code, captured
        return json.loads(captured.out)

    return asked


@pytest.fixture
def elsewhere(kafka: Kafka) -> Iterator[str]:
    """Give the prefix of a new deployment."""
    prefix = f"test-{secrets.token_hex(6)}"
    admin = clients.admin(kafka.connection)
    topics.create(admin, Topics(prefix).table())
    yield prefix
    topics.delete(admin, [topic.name for topic in Topics(prefix).table()])


def stopped(worker: WorkerProcess) -> None:
    """End a worker as its supervisor would."""
    worker.process.terminate()
    assert worker.process.wait(PATIENCE_SECONDS) == 0


def test_a_new_deployment_begins_with_the_model_of_another(
    start: Start,
    send: Send,
    state: Ask,
    rng: np.random.Generator,
    elsewhere: str,
    tmp_path: Path,
) -> None:
    records = [publish(event) for event in events(rng, 200)]
    worker = start()
    send(records)
    old = worker.wait_for(ends_of(records))
    stopped(worker)
    file = str(tmp_path / "model.npz")
    assert state("export", file)["model_digest"] == old["model_digest"]
    first = start("--prefix", elsewhere, "--group", elsewhere, "--from-snapshot", file)
    new = first.state()
    kept = ("devices", "items", "reports_by_mechanism")
    assert (new["cut"], [new[each] for each in kept]) == (0, [old[each] for each in kept])
    assert new["base"]["origin"]
    second = start("--prefix", elsewhere, "--group", elsewhere)
    assert second.state()["model_digest"] == new["model_digest"]
    assert state("verify", "--snapshot", file, "--strict", prefix=elsewhere)
    stopped(first)


@pytest.mark.thorough
def test_a_campaign_that_began_before_the_first_rating_is_in_every_state(
    start: Start,
    send: Send,
    state: Ask,
    rng: np.random.Generator,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MURMUREC_PRIVACY_MODE", "central")
    Log(settings, send).entry(planned(plan()))
    worker = start()
    records = [publish(event) for event in events(rng, 60)]
    send(records)
    shown = worker.wait_for(ends_of(records))
    assert shown["campaign"]["number"] == plan().number
    found = state("verify", "--worker", worker.url)
    stopped(worker)
    found = state("verify", "--strict")
    assert found["model_digest"] == shown["model_digest"]
    assert start().state()["model_digest"] == shown["model_digest"]


@pytest.mark.thorough
def test_an_earlier_model_is_gone_back_to(
    start: Start, send: Send, state: Ask, rng: np.random.Generator, tmp_path: Path
) -> None:
    records = [publish(event) for event in events(rng, 300)]
    worker = start()
    send(records[:100])
    good = worker.wait_for(ends_of(records[:100]))
    send(records[100:200])  # the flood
    worker.wait_for(ends_of(records[:200]))
    file = str(tmp_path / "good.npz")
    state("export", file, "--at-cut", str(good["cut"]))
    stopped(worker)
    again = start("--from-snapshot", file)
    begun = again.state()
    assert begun["model_digest"] == good["model_digest"]
    assert begun["positions"] == ends_of(records[:200])
    send(records[200:])
    later = again.wait_for(ends_of(records))
    assert later["counts"]["applied"] == 100
    stopped(again)
    kept = start().state()
    assert kept["model_digest"] == later["model_digest"]
    assert state("verify", "--snapshot", file, "--strict")


@pytest.mark.thorough
def test_a_worker_that_runs_keeps_others_from_replacing_its_state(
    start: Start, send: Send, state: Ask, rng: np.random.Generator, tmp_path: Path
) -> None:
    records = [publish(event) for event in events(rng, 50)]
    worker = start()
    send(records)
    worker.wait_for(ends_of(records))
    file = str(tmp_path / "model.npz")
    state("export", file)
    for way in (["--from-snapshot", file], ["--rebuild"], ["--accept-gap", "--from", "latest"]):
        refused = start(*way, ready=False)
        assert refused.process.wait(PATIENCE_SECONDS) == 1
        assert "stop them first" in refused.log.read_text()
    assert worker.state()["counts"]["applied"] == 50


@pytest.mark.thorough
def test_other_settings_are_refused_and_rebuilt_on_request(
    start: Start,
    send: Send,
    state: Ask,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = [publish(event) for event in events(rng, 100)]
    worker = start()
    send(records)
    worker.wait_for(ends_of(records))
    stopped(worker)
    monkeypatch.setenv("MURMUREC_HASH_SEED", "2")
    refused = start(ready=False)
    assert refused.process.wait(PATIENCE_SECONDS) == 1
    logged = refused.log.read_text()
    assert "--rebuild" in logged
    assert "Traceback" not in logged
    worker = start("--rebuild")
    assert worker.state()["counts"]["applied"] == 100
    stopped(worker)
    found = state("verify")
    assert "another design" in found["missing"][0]  # the digest reports of the old design
    assert any("checkpoint" in what and "log" in what for what in found["compared"])


@pytest.mark.thorough
def test_a_gap_behind_a_checkpoint_keeps_its_model(
    start: Start,
    send: Send,
    state: Ask,
    rng: np.random.Generator,
    kafka: Kafka,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("MURMUREC_DATA_DIR", str(tmp_path / "data"))
    records = [publish(event) for event in events(rng, 300)]
    worker = start()
    send(records[:100])
    before = worker.wait_for(ends_of(records[:100]))
    stopped(worker)
    send(records[100:200])
    ratings = Topics(settings.topic_prefix).ratings
    gone = [TopicPartition(ratings, p, end) for p, end in enumerate(ends_of(records[:200]))]
    admin = clients.admin(kafka.connection)
    for future in admin.delete_records(gone).values():
        future.result(30)
    refused = start(ready=False)
    assert refused.process.wait(PATIENCE_SECONDS) == 1
    logged = refused.log.read_text()
    assert "--accept-gap" in logged
    assert any(f"continues from offset {end}:" in logged for end in before["positions"])
    worker = start("--accept-gap", "--from", "earliest")
    begun = worker.state()
    assert begun["base"]["gap"]
    assert begun["model_digest"] == before["model_digest"]
    assert begun["positions"] == ends_of(records[:200])
    send(records[200:])
    assert worker.wait_for(ends_of(records))["counts"]["applied"] == 100
    stopped(worker)
    file = next((tmp_path / "data" / "gaps").glob("*.npz"))
    assert state("verify", "--snapshot", str(file), "--strict")


@pytest.mark.thorough
def test_a_snapshot_does_not_bring_back_who_was_forgotten(
    start: Start,
    send: Send,
    state: Ask,
    rng: np.random.Generator,
    settings: Settings,
    tmp_path: Path,
) -> None:
    made = events(rng, 100)
    records = [publish(event) for event in made]
    worker = start()
    send(records)
    worker.wait_for(ends_of(records))
    file = str(tmp_path / "model.npz")
    state("export", file)
    where = ["--bootstrap", str(settings.bootstrap_servers), "--prefix", settings.topic_prefix]
    device = made[0].device.hex()
    assert run(["forget", "--device", device, "--rebuild", "--yes", *where]) == 0
    stopped(worker)
    refused = start("--from-snapshot", file, ready=False)
    assert refused.process.wait(PATIENCE_SECONDS) == 1
    assert "forgotten with a rebuild" in refused.log.read_text()


def test_two_ways_at_once_and_a_place_without_a_gap_are_refused(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["worker", "--rebuild", "--reseal"]) == 2
    assert "give only one of them" in capsys.readouterr().err
    assert run(["worker", "--rebuild", "--accept-gap", "--from", "latest"]) == 2
    assert "from its beginning" in capsys.readouterr().err
    assert run(["worker", "--from", "latest"]) == 2
    assert "--accept-gap" in capsys.readouterr().err
