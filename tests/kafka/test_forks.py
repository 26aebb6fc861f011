"""A forked command behaves as a started one, and has what the process before it has loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stream_app.broker.local import free_ports
from stream_app.cli.demo.demo_processes import WorkerProcess
from stream_app.cli.demo.demo_processes import running as started
from tests.conftest import Kafka
from tests.fixtures import forks
from tests.fixtures.small_worker import SMALL
from tests.fixtures.streams import events, publish
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.kafka.conftest import Send, ends_of

pytestmark = pytest.mark.kafka

IN_COMMON = ("model_digest", "ledger_digest", "design_digest", "counts", "positions")


def test_a_forked_worker_and_a_started_one_learn_answer_and_end_alike(
    kafka: Kafka,
    topics: str,
    send: Send,
    rng: np.random.Generator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in SMALL.items():
        monkeypatch.setenv(name, value)
    where = ["--bootstrap", kafka.bootstrap, "--prefix", topics, "--group", topics]
    send(records := [publish(event) for event in events(rng, 100)])
    states, logged = [], []
    for run in (started, forks.worker):
        (folder := tmp_path / run.__name__).mkdir()
        with run(where, free_ports(1)[0], folder) as worker:
            worker.wait_until_ready()
            state = worker.wait_for(ends_of(records))
            states.append({name: state[name] for name in IN_COMMON})
            worker.process.terminate()
            assert worker.process.wait(PATIENCE_SECONDS) == 0
        logged.append(events_of(worker))
    assert states[0] == states[1]
    assert logged[0] == logged[1]


def events_of(worker: WorkerProcess) -> list[str]:
    """Return what a worker logs at every start and end; all its lines are JSON. Two threads write
    at a start, in either order."""
    lines = [json.loads(line) for line in worker.log.read_text().splitlines()]
    always = ("checkpoint.read", "state.restored", "worker.started", "worker.stopping")
    return sorted(line["event"] for line in lines if line["event"] in always)


@pytest.mark.parametrize(
    "words", [["--version"], ["worker", "--nonsense"], ["ask", "--bootstrap", "127.0.0.1:1"]]
)
def test_output_errors_and_exit_codes_are_the_same(words: list[str]) -> None:
    forked = forks.run(words)
    real = subprocess.run(
        [sys.executable, "-m", "stream_app.cli", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (forked.returncode, forked.stdout, forked.stderr) == (
        real.returncode,
        real.stdout,
        real.stderr,
    )


def test_a_forked_command_has_its_own_session_folder_and_environment_and_loaded_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MURMUREC_OF_THIS_TEST", "seen")
    shown = forks.run(
        ["--version"],
        before="""
            import json, os, sys, threading
            loaded = "stream_app.agents.application" in sys.modules
            found = os.getsid(0) == os.getpid(), os.getcwd(), loaded, threading.active_count()
            print(json.dumps([*found, os.environ["MURMUREC_OF_THIS_TEST"], sys.stdin.read()]))
        """,
    )
    assert json.loads(shown.stdout.splitlines()[0]) == [True, str(tmp_path), True, 1, "seen", ""]


def test_a_signal_ends_it_and_its_end_is_seen_once(tmp_path: Path) -> None:
    process = forks.start([], tmp_path / "log", before="import signal; signal.pause()")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    assert process.poll() is None
    os.kill(process.pid, 0)
    process.kill()
    assert process.wait(PATIENCE_SECONDS) == -9
    assert process.poll() == process.returncode == -9
    process.terminate()  # nothing: another process may have the number by now
