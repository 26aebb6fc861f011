"""An alert that rings: Prometheus under the deployment's own rules, and a worker that is killed."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
import yaml

from stream_app.broker.local import free_ports
from stream_app.monitoring.exposition import Exposition
from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource
from stream_app.settings import Settings
from tests.deploy.test_alert_rules import ALERTS
from tests.fixtures.drift import drift_world, messages
from tests.fixtures.programs import program
from tests.fixtures.waiting import until
from tests.kafka.conftest import Send, Start, ends_of


def ringing(address: str) -> set[str]:
    """Return the alerts that fire."""
    with urllib.request.urlopen(f"http://{address}/api/v1/alerts", timeout=5) as reply:
        found = json.load(reply)["data"]["alerts"]
    return {each["labels"]["alertname"] for each in found if each["state"] == "firing"}


@pytest.mark.kafka
@pytest.mark.thorough
def test_a_worker_that_is_killed_rings_within_a_minute(start: Start, tmp_path: Path) -> None:
    program("prometheus", package="prometheus")
    worker = start()
    configuration = yaml.safe_load((ALERTS.parent / "prometheus.yml").read_text("utf-8"))
    configuration["rule_files"] = [str(ALERTS)]
    job = configuration["scrape_configs"][0]
    del job["authorization"]  # this worker has no token
    job["static_configs"] = [{"targets": [worker.url.removeprefix("http://")]}]
    configuration["scrape_configs"] = [job]
    (tmp_path / "prometheus.yml").write_text(json.dumps(configuration), encoding="utf-8")
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={tmp_path / 'prometheus.yml'}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address={address}",
            ],
            stdout=log,
            stderr=log,
        )

    def scraped() -> bool:
        url = f"http://{address}/api/v1/query?query=murmurec_ready"
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(json.load(reply)["data"]["result"])

    try:
        until(scraped, "the worker is scraped")
        assert "MurmurecWorkerDown" not in ringing(address)
        worker.process.kill()
        began = time.monotonic()
        until(lambda: "MurmurecWorkerDown" in ringing(address), "the alert fires", pause=0.5)
        assert time.monotonic() - began < 60
    finally:
        process.terminate()
        process.wait(30)


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
