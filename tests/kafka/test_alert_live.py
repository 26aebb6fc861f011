"""An alert that rings: Prometheus under the deployment's own rules, and a worker that is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from stream_app.broker.local import free_ports
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.kafka import clients
from stream_app.kafka.topic_admin import create
from stream_app.monitoring.exposition import Exposition
from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource
from stream_app.settings import Settings
from stream_app.wire import Topics
from stream_app.wire.topics import FEATURES
from tests.conftest import Kafka
from tests.deploy.test_alert_rules import ALERTS, STEP_SECONDS, WORKER, held_for, passes, pending
from tests.fixtures.drift import by_visit, drift_world, messages
from tests.fixtures.gateway_beside import Served, served
from tests.fixtures.programs import program
from tests.fixtures.scraped import Recorded, ask, ask_range
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Send, Start, ends_of


def ringing(address: str) -> set[str]:
    """Return the alerts that fire."""
    with urllib.request.urlopen(f"http://{address}/api/v1/alerts", timeout=5) as reply:
        found = json.load(reply)["data"]["alerts"]
    return {each["labels"]["alertname"] for each in found if each["state"] == "firing"}


@contextmanager
def watching(
    folder: Path, targets: Mapping[str, str], every: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Give the address of a Prometheus with the files of deploy/, which scrapes these targets by
    job; `every`: other intervals."""
    configuration = yaml.safe_load((ALERTS.parent / "prometheus.yml").read_text("utf-8"))
    configuration["rule_files"] = [str(ALERTS)]
    configuration["global"] |= every or {}
    jobs = [job for job in configuration["scrape_configs"] if job["job_name"] in targets]
    for job in jobs:
        job.pop("authorization", None)  # these workers have no token
        job["static_configs"] = [{"targets": [targets[job["job_name"]].rpartition("/")[2]]}]
    configuration["scrape_configs"] = jobs
    (folder / "prometheus.yml").write_text(json.dumps(configuration), encoding="utf-8")
    address = f"127.0.0.1:{free_ports(1)[0]}"
    command = [
        program("prometheus", package="prometheus"),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield address
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.kafka
@pytest.mark.thorough
def test_a_worker_that_is_killed_rings_within_a_minute(start: Start, tmp_path: Path) -> None:
    worker = start()
    with watching(tmp_path, {"murmurec": worker.url}) as address:
        until(lambda: ask(address, "murmurec_ready"), "the worker is scraped")
        assert "MurmurecWorkerDown" not in ringing(address)
        worker.process.kill()
        began = time.monotonic()
        until(lambda: "MurmurecWorkerDown" in ringing(address), "the alert fires", pause=0.5)
        assert time.monotonic() - began < 60


def evaluations(address: str) -> float:
    """Return how often all rules were evaluated."""
    page = urllib.request.urlopen(f"http://{address}/metrics", timeout=5).read().decode()
    found = re.search(r"^prometheus_rule_group_iterations_total{.*} (\S+)$", page, re.M)
    return float(found[1]) if found else 0.0


def streamed(gateway: Served) -> dict[str, Any]:
    """Return the first status that a gateway shows to a page."""
    with urllib.request.urlopen(f"{gateway.url}/stream", timeout=PATIENCE_SECONDS) as stream:
        for line in stream:
            if line.startswith(b"data: "):
                status: dict[str, Any] = json.loads(line[6:])
                return status
    raise AssertionError("the stream ended")


def processes(worker: WorkerProcess) -> dict[int, int]:
    """Return the newest process of each shard, from the log of their worker."""
    events = [json.loads(line) for line in worker.log.read_text().splitlines()]
    return {e["shard"]: e["process"] for e in events if e["event"] == "shard.started"}


# Evaluations of all rules, and how often, else as in the file: that is five minutes. A scrape has
# to wait for a process that hangs, so its intervals are those of the file.
LOOKS = [
    pytest.param(60, {}, marks=pytest.mark.nightly, id="five minutes"),
    pytest.param(
        12, {"evaluation_interval": "1s"}, marks=pytest.mark.thorough, id="some evaluations"
    ),
]


@pytest.mark.kafka
@pytest.mark.parametrize(("looks", "every"), LOOKS)
def test_two_healthy_shards_ring_no_alert_and_one_that_hangs_rings(
    looks: int,
    every: dict[str, str],
    kafka: Kafka,
    topics: str,
    start: Start,
    send: Send,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Ratings come at each look. No alert is even pending until a process hangs; then that of its
    shard alone is, and rings within a minute with the intervals of the file."""
    monkeypatch.setenv("MURMUREC_SHARDS", "2")
    prefix = f"{topics}-two"
    create(clients.admin(kafka.connection), Topics(prefix, 2).table(features=FEATURES))
    worker = start("--prefix", prefix)
    monkeypatch.setenv("MURMUREC_GATEWAY_WORKER", worker.url)
    world = by_visit(drift_world(5, users=400, items=100, ratings=160_000), 5)
    name = settings.mechanisms[0]
    records = messages(world, registry.parse(name).release(world.levels, SeededSource(5)), name)
    parts = [len(records) // 2 + len(records) * look // (2 * looks) for look in range(looks + 1)]
    send(records[: parts[0]], prefix)
    learned = "sum(murmurec_ratings_total{outcome=~'learned|held_out'}) >= "
    with served(kafka.bootstrap, prefix) as gateway:
        until(lambda: gateway.reply("/readyz")[0] == 200, "the gateway is ready")
        until(lambda: streamed(gateway)["worker"], "the gateway finds the worker")
        assert streamed(gateway)["ready"]
        jobs = {"murmurec": worker.url, "murmurec-gateway": gateway.url}
        with watching(tmp_path, jobs, every) as address:
            both = "count(murmurec_ready == 1 and murmurec_shard_up == 1) == 2"
            until(lambda: ask(address, both), "both shards are scraped")
            until(lambda: ask(address, f"{learned}1"), "ratings are learned")
            scraped = evaluations(address)  # before the first scrape a worker was missing
            until(lambda: evaluations(address) > scraped + 1, "the rules have seen both")
            first, began = evaluations(address), time.time()
            for look, (start_at, stop) in enumerate(pairwise(parts)):
                send(records[start_at:stop], prefix)
                until(lambda n=look: evaluations(address) > first + n, "the rules are evaluated")
            assert ask_range(Recorded(address, began, time.time()), "ALERTS") == []
            until(
                lambda: ask(address, f"{learned}{0.9 * len(world.items)}"),
                "all ratings are learned",
            )
            assert len(ask(address, "murmurec_clock_owner == 1")) == 2
            page = worker.get("/metrics").decode()
            silent = held_for(page, 3600 // STEP_SECONDS) | {f"up{{{WORKER}}}": "1x999"}
            passes([pending("as scraped", silent, seconds, 0) for seconds in (60, 3600)], tmp_path)
            _hangs(worker, address, rings=not every)


def _hangs(worker: WorkerProcess, address: str, *, rings: bool) -> None:
    """Stop the process of a shard: its alert is pending and, with `rings`, fires; then let it go
    on: the alert ends."""
    down, shard = "MurmurecWorkerDown", processes(worker)[1]
    state = f'ALERTS{{alertname="{down}",shard="1",alertstate="%s"}}'
    os.kill(shard, signal.SIGSTOP)
    began = time.monotonic()
    try:
        until(lambda: ask(address, state % "pending"), "the alert is pending")
        assert json.loads(worker.get("/livez", 20)) == {"alive": False, "shards": [1]}
        if rings:
            until(lambda: ask(address, state % "firing"), "the alert fires", pause=0.5)
            assert time.monotonic() - began < 60
        names = {each["metric"]["alertname"] for each in ask(address, "ALERTS")}
        assert names == {down}
    finally:
        os.kill(shard, signal.SIGCONT)
    until(lambda: not ask(address, "ALERTS"), "the alert has ended")
    os.kill(shard, signal.SIGKILL)
    until(lambda: processes(worker)[1] != shard, "it is started again")
    worker.wait_until_ready()
    assert json.loads(worker.get("/livez")) == {"alive": True}


@pytest.mark.kafka
@pytest.mark.thorough
def test_a_running_worker_counts_a_drift_that_was_planted_and_none_before(
    start: Start, send: Send, settings: Settings
) -> None:
    world, name = drift_world(5, users=4000, items=100, ratings=80_000), settings.mechanisms[0]
    reports = registry.parse(name).release(world.levels, SeededSource(5))
    records, worker = messages(world, reports, name), start()
    half = len(records) // 2
    for end, drifts in ((half, 0.0), (len(records), 1.0)):
        send(records[end - half : end])
        worker.wait_for(ends_of(records[:end]))

        def counted(drifts: float = drifts) -> bool:
            page = urllib.request.urlopen(f"{worker.url}/metrics", timeout=5).read().decode()
            seen = Exposition(page, {"murmurec_drift_detected_total"})
            return seen.by("drift_detected_total", "detector") == {"error": drifts, "lists": 0}

        until(counted, f"{drifts:.0f} drifts are counted")
