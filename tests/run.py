"""Run pytest, and say what the run cost: wall time, and CPU time of it and of every process that it
started, the broker's included.

    python -m tests.run [--page FILE] ARGUMENTS OF PYTEST

The cost is a report and fails no run: processors, and what else runs on them, differ by more than
two. `--page` writes where the time went (`tests.durations`, which must be given as a plugin). A
process that is left running is a failure.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl.h
_END_SECONDS = 20.0


@dataclass(frozen=True)
class Cost:
    """What a run took."""

    wall_seconds: float
    cpu_seconds: float

    def __str__(self) -> str:
        return f"wall {self.wall_seconds / 60:.1f} min, CPU {self.cpu_seconds / 60:.1f} min"


def adopt_orphans() -> None:
    """Become the parent of processes that outlive theirs, so that their CPU time counts, too."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_SUBREAPER, 1, 0, 0, 0)


def cpu_of_children() -> float:
    """Return the CPU time of every process that has ended under this one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(command: list[str]) -> tuple[int, Cost]:
    """Run a command to its end and that of all its processes; return its exit code, or 1 where it
    left a process running, and its cost."""
    adopt_orphans()
    began, before = time.monotonic(), cpu_of_children()
    # Idle threads of linear algebra keep spinning; and every process of the run imports the same
    # modules, whose bytecode is kept.
    environment = {"OPENBLAS_NUM_THREADS": "1", **os.environ}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.Popen(command, env=environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command, which reports
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    code = process.wait()
    wall = time.monotonic() - began
    left = _left_running()
    return code or bool(left), Cost(wall, cpu_of_children() - before)


def _left_running() -> list[str]:
    """Wait for the processes that are left; kill, print and return those that do not end."""
    deadline, left = time.monotonic() + _END_SECONDS, list[str]()
    with suppress(ChildProcessError):  # none is left
        while True:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
            if time.monotonic() > deadline:
                if left or not children(os.getpid()):
                    return left or ["a process that this system does not name"]
                for child in children(os.getpid()):
                    words = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ")
                    left.append(words.decode(errors="replace")[:300])
                    print(f"left running, killed: {left[-1]}", flush=True)
                    os.kill(child, signal.SIGKILL)
                deadline += _END_SECONDS
            time.sleep(0.05)
    return left


def children(process: int) -> list[int]:
    """Return the processes that a process is the parent of, as far as this system tells."""
    found = list[int]()
    with suppress(OSError):  # it has ended, or this system has no such folder
        for thread in Path(f"/proc/{process}/task").iterdir():
            with suppress(OSError):  # the thread has ended
                found += map(int, (thread / "children").read_text().split())
    return found


def main() -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--page", type=Path)
    options, rest = parser.parse_known_args()
    code, cost = measured([sys.executable, "-m", "pytest", *rest])
    print(f"the run took: {cost}", flush=True)
    if options.page is not None:
        from tests import durations

        durations.write(options.page, cost)
    return code


if __name__ == "__main__":
    sys.exit(main())
