"""The workers that are killed: each keeps its port, its folder and, if static, its name in the
group over all its lives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stream_app.broker.local import free_ports, leashed
from stream_app.cli.demo.demo_processes import WorkerProcess
from tests.fixtures.waiting import PATIENCE_SECONDS

# Kubernetes kills what has not ended so long after SIGTERM; a quiet machine needs a fifth of it.
_GRACE_SECONDS = 30.0


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process: this one's without its settings, and these."""
    kept = ("MURMUREC_TUNING_CACHE_DIR",)
    bare = {n: v for n, v in os.environ.items() if not n.startswith("MURMUREC_") or n in kept}
    return bare | dict(settings)


@dataclass
class Life:
    """One worker of a deployment; start it from the thread that outlives it."""

    name: str
    arguments: list[str]
    environment: dict[str, str]
    folder: Path
    port: int = field(default_factory=lambda: free_ports(1)[0])
    lives: int = 0
    worker: WorkerProcess | None = None

    def start(self) -> WorkerProcess:
        """Start it, or start it again."""
        self.lives += 1
        log = self.folder / f"{self.name}-{self.lives:03d}.log"
        command = [sys.executable, "-m", "stream_app.cli", "worker", "--admin-port", str(self.port)]
        with log.open("wb") as output:
            process = subprocess.Popen(
                leashed([*command, *self.arguments]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self.environment,
            )
        self.worker = WorkerProcess(process, f"http://127.0.0.1:{self.port}", log)
        return self.worker

    @property
    def running(self) -> WorkerProcess:
        """The current process."""
        assert self.worker is not None, "it was not started"
        return self.worker

    @property
    def pid(self) -> int:
        """The id of its process, 0 before the first."""
        return self.worker.process.pid if self.worker is not None else 0

    def kill(self) -> bool:
        """Kill it with SIGKILL; return whether it was running."""
        if self.worker is None or self.worker.process.poll() is not None:
            return False
        self.worker.process.kill()
        return True

    def end(self) -> None:
        """Kill it and wait for its end."""
        if self.kill():
            self.running.process.wait(PATIENCE_SECONDS)

    def gone(self) -> None:
        """Return when the killed process is gone; one that ended by itself is a finding."""
        code = self.running.process.wait(PATIENCE_SECONDS)
        if code != -signal.SIGKILL:
            self.running.check()

    def stop(self, seconds: float = _GRACE_SECONDS) -> int:
        """End it as an operator would, and return its exit code."""
        process = self.running.process
        process.terminate()
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return -signal.SIGKILL

    def as_of(self, seconds: float = 1.0) -> int:
        """Return the cut of the state that it reports, -1 where it reports none."""
        try:
            return int(json.loads(self.running.get("/state", seconds))["cut"])
        except (OSError, ValueError, KeyError):
            return -1

    def waits_for(self) -> str:
        """Return what /readyz waits for, empty when the worker is ready or does not run."""
        try:
            return json.loads(self.running.get("/readyz", 1.0)).get("waiting_for") or ""
        except (OSError, ValueError):
            return ""

    def applies_beyond(self, cut: int, seconds: float) -> float:
        """Return the time at which its state first was of a later cut."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.running.check()
            if self.as_of() > cut:
                return time.monotonic()
            time.sleep(0.02)
        raise AssertionError(
            f"{self.name} did not apply beyond cut {cut} within {seconds:.0f} s: {self.waits_for()}"
            f"; its log: {self.running.log}"
        )
