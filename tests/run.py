"""Run pytest, and say what the run cost: wall time, and CPU time of it and of every process that it
started, the broker's included.

    python -m tests.run [--ceiling] [--page FILE] ARGUMENTS OF PYTEST

Processors differ by more than two, so CPU time is also given in calibration loops: the unit is the
CPU time of a fixed loop in the same run. With `--ceiling` and CI set, a run that passed fails where
it took more loops than `tests/ceilings.toml` allows. `--page` writes where the time went
(`tests.durations`, which must be given as a plugin). A process that is left running is a failure.
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
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median

from tests.ceilings import ceiling

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl.h
_END_SECONDS = 20.0
_STEPS, _REPETITIONS = 1_000_000, 5


@dataclass(frozen=True)
class Cost:
    """What a run took; `loop` is the CPU time of one calibration loop in it."""

    wall_seconds: float
    cpu_seconds: float
    loop_seconds: float

    @property
    def loops(self) -> float:
        """The CPU time in calibration loops."""
        return self.cpu_seconds / self.loop_seconds

    def __str__(self) -> str:
        return (
            f"wall {self.wall_seconds / 60:.1f} min, CPU {self.cpu_seconds / 60:.1f} min = "
            f"{self.loops:,.0f} calibration loops of {1000 * self.loop_seconds:.0f} ms"
        )


def calibration_seconds() -> float:
    """Return the CPU time of the loop with every core busy, as in the run, since two threads of one
    core slow each other down: the median of some on each."""
    cores = os.cpu_count() or 1
    with ProcessPoolExecutor(cores, mp_context=get_context("fork")) as busy:
        return median(busy.map(_one_loop, range(cores * _REPETITIONS)))


def _one_loop(_: int) -> float:
    """Return the CPU time of a million steps of a linear congruential generator and a table."""
    began, state, table = time.process_time(), 1, dict.fromkeys(range(1024), 0)
    for _ in range(_STEPS):
        state = (state * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFFFFFFFFFF
        table[state >> 54] += 1
    return time.process_time() - began


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
    loop, began, before = calibration_seconds(), time.monotonic(), cpu_of_children()
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
    used = cpu_of_children() - before
    loop = (loop + calibration_seconds()) / 2
    return code or bool(left), Cost(wall, used, loop)


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
    """Run, report, and compare with the ceiling."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--ceiling", action="store_true")
    parser.add_argument("--page", type=Path)
    options, rest = parser.parse_known_args()
    code, cost = measured([sys.executable, "-m", "pytest", *rest])
    print(f"the run took: {cost}", flush=True)
    if options.page is not None:
        from tests import durations

        durations.write(options.page, cost)
    most = ceiling("test_loops")
    if code == 0 and options.ceiling and cost.loops > most:
        print(
            f"the tests took {cost.loops:,.0f} calibration loops of CPU time and may take "
            f"{most:,.0f}: see make durations, and move what is slow to a later tier"
        )
        return int(bool(os.environ.get("CI")))
    return code


if __name__ == "__main__":
    sys.exit(main())
