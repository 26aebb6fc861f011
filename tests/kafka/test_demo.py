"""The demo, whole, on a small generated world: everything is accounted for and nothing is left
running."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Kafka

pytestmark = pytest.mark.kafka

KEYS = {
    *("rows", "published", "refused", "applied", "duplicates", "rejected", "held_out"),
    *("ratings_per_second", "rmse_reported", "rmse_debiased", "rmse_true", "rmse_baseline"),
    *("kl_nats", "mechanism", "epsilon", "adjacency", "query_p50_ms", "query_p99_ms", "index"),
    *("recall", "worker_rss_mb", "cut", "model_digest", "log_digest"),
}


def test_the_demo_runs_through_and_accounts_for_every_row(kafka: Kafka, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "stream_app.cli", "demo", "--bootstrap", kafka.bootstrap]
    command += ["--ratings", "20000", "--seconds", "5", "--epsilon", "4", "--plain"]
    done = subprocess.run(
        [*command, "--json", str(report)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(report.read_text())
    assert set(found) >= KEYS
    assert found["rows"] == found["published"] + found["refused"] > 15_000
    assert found["published"] == found["applied"] + found["held_out"]
    assert found["duplicates"] == found["rejected"] == 0
    assert found["held_out"] > 0
    assert found["model_digest"] == found["log_digest"]
    assert (found["mechanism"], found["epsilon"], found["adjacency"]) == ("rr:5:4", 4.0, "value")
    assert found["index"] == "qolsh"
    assert found["rmse_best_possible"] < found["rmse_true"] < 1.5
    assert abs(found["rmse_true"] - found["rmse_debiased"]) < 0.1
    assert found["query_p50_ms"] > 0
    assert found["query_unanswered"] <= 10  # of some hundreds; on a busy machine some come late
    assert found["recall"] > 0.5
    assert "only the device knows" in done.stdout
    assert "Traceback" not in done.stderr
    prefix = re.search(r"topics (murmurec-demo-[0-9a-f]+)", done.stdout)
    assert prefix is not None
    left = subprocess.run(["pgrep", "-f", prefix[1]], capture_output=True, text=True, check=False)
    assert left.stdout == ""
