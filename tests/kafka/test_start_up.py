"""The start of a worker: its log lines, and its notice while kernels compile."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stream_app.cli.demo.demo_processes import WorkerProcess
from tests.fixtures import forks
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.kafka.conftest import SMALL, Start

pytestmark = pytest.mark.kafka


def logged(worker: WorkerProcess) -> list[dict[str, object]]:
    """Return the lines of a worker's log; every one must be a JSON object."""
    return [json.loads(line) for line in worker.log.read_text().splitlines()]


def test_a_start_logs_the_workers_own_events_alone(start: Start) -> None:
    worker = start()
    lines = logged(worker)
    # A warning, such as of a broker whose coordinator is not loaded yet, is no chatter.
    events = [str(line["event"]) for line in lines if line["level"] == "info"]
    assert "worker.started" in events
    assert all(re.fullmatch(r"[a-z]+\.[a-z_]+", event) for event in events), events
    assert len(set(events)) == len(events), events


@pytest.mark.nightly
def test_on_an_empty_cache_the_worker_reports_that_it_compiles(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    worker, reasons = start(ready=False, forked=False), []
    deadline = time.monotonic() + 2 * PATIENCE_SECONDS
    while time.monotonic() < deadline:
        worker.check()
        try:
            answer = json.loads(worker.get("/readyz", 30.0))
        except OSError:
            continue  # the view is not served yet
        if answer["ready"]:
            break
        reasons.append(str(answer["waiting_for"]))
    assert any(reason.startswith("compiling kernels: ") for reason in reasons), reasons
    assert not any("does not answer" in reason for reason in reasons), reasons
    events = [line["event"] for line in logged(worker)]
    assert events.index("kernels.compiling") < events.index("kernels.compiled")


def test_the_warm_up_command_finds_the_kernels_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in SMALL.items():
        monkeypatch.setenv(name, value)
    done = forks.run(["worker", "--warmup"])
    assert (done.returncode, done.stdout[:18]) == (0, "0 kernels compiled"), done.stderr


@pytest.mark.nightly
def test_the_warm_up_command_fills_an_empty_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**SMALL, "NUMBA_CACHE_DIR": str(tmp_path / "numba")}.items():
        monkeypatch.setenv(name, value)
    command = [sys.executable, "-m", "stream_app.cli", "worker", "--warmup"]
    first, second = (
        subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(2)
    )
    assert not first.startswith("0 kernels")
    assert second.startswith("0 kernels compiled")
    assert list((tmp_path / "numba").rglob("*.nbc"))
