"""How long a killed worker is away: from the start of the new process to its first assignment, and
to the right to write, with and without the table, static and dynamic.

    python -m tests.kafka.restart_times BOOTSTRAP [--restarts 20] [--only WORDS]

The process is a worker without a model (`tests.kafka.member`): what is measured is membership.
"""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from stream_app import clients
from stream_app.topics import create, delete
from stream_app.wire import Topics

WAYS = {
    "static, table, no fixed second": ("--instance", "a"),
    "static, table, Faust's second": ("--instance", "a", "--slow"),
    "static, agent alone, no fixed second": ("--instance", "a", "--no-table"),
    "static, agent alone, Faust's second": ("--instance", "a", "--no-table", "--slow"),
    "dynamic, table, no fixed second": (),
    "dynamic, agent alone, no fixed second": ("--no-table",),
    "dynamic, agent alone, Faust's second": ("--no-table", "--slow"),
}


def until(process: subprocess.Popen[bytes], event: str, seconds: float = 30.0) -> dict[str, float]:
    """Return the time of each event up to the first `event`."""
    assert process.stdout is not None
    times: dict[str, float] = {}
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        line = json.loads(process.stdout.readline() or "null")
        if line is None:
            break
        if line["event"] != "assigned" or ".cuts.v1/0" in line["topics"]:
            times.setdefault(line["event"], line["time"])
        if event in times:
            return times
    raise TimeoutError(f"no {event}: {times}")


def measure(bootstrap: str, way: tuple[str, ...], restarts: int) -> dict[str, list[float]]:
    """Kill and restart one worker so many times; return the times of each event."""
    prefix = f"restart-{secrets.token_hex(4)}"
    admin = clients.admin(bootstrap)
    create(admin, Topics(prefix).table())
    awaited = "recovered" if "--no-table" in way else "owns"
    found: dict[str, list[float]] = {"assigned": [], awaited: []}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.kafka.member", bootstrap, prefix, folder, *way]
        for number in range(restarts + 1):
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            ) as process:
                try:
                    times = until(process, awaited)
                    time.sleep(1.0)
                finally:
                    process.send_signal(signal.SIGKILL)
            if number:
                for event in found:
                    found[event].append(times[event])
    delete(admin, [topic.name for topic in Topics(prefix).table()])
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("--restarts", type=int, default=20)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    for name, way in WAYS.items():
        if options.only in name:
            for event, times in measure(options.bootstrap, way, options.restarts).items():
                low, middle, high = np.percentile(times, (0, 50, 99))
                print(f"{name:38} {event:10} best {low:5.2f}  p50 {middle:5.2f}  p99 {high:5.2f} s")
                sys.stdout.flush()


if __name__ == "__main__":
    assert Path("stream_app").is_dir()
    main()
