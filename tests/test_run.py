"""What a run of the tests costs is measured whole, and what it leaves running is found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests import durations, run
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.run import Cost

ROOT = Path(__file__).parents[1]
# It adopts the orphans of its command, which a test process must not.
MEASURED = """
import json, sys
from tests import run
run._END_SECONDS = float(sys.argv[1])
code, cost = run.measured([sys.executable, "-c", sys.argv[2]])
print(json.dumps([code, cost.wall_seconds, cost.cpu_seconds]))
"""
# The middle process ends at once; the last one outlives it.
ORPHAN = """
import subprocess, sys
middle = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]])"
subprocess.run([sys.executable, "-c", middle, {last!r}])
"""
BUSY = "import time\nwhile time.process_time() < 0.5: pass"
ENDLESS = "import signal; signal.pause()"


def measured(seconds: float, program: str) -> tuple[list[str], int, Cost]:
    """Return what was printed, the exit code and the cost of a program."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(seconds), program],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=PATIENCE_SECONDS,
    )
    *printed, last = done.stdout.splitlines()
    code, *cost = json.loads(last)
    return printed, code, Cost(*cost)


def test_the_time_of_a_process_that_outlives_its_parent_counts() -> None:
    printed, code, cost = measured(PATIENCE_SECONDS, ORPHAN.format(last=BUSY))
    assert (printed, code) == ([], 0)
    assert cost.cpu_seconds >= 0.5


def test_a_process_that_is_left_running_is_named_killed_and_a_failure() -> None:
    printed, code, _ = measured(0.1, ORPHAN.format(last=ENDLESS))
    assert code == 1
    (line,) = printed
    assert line.startswith("left running, killed: ")
    assert ENDLESS in line


def test_the_page_has_folders_files_and_tests_by_their_cpu_time() -> None:
    rows = [
        durations.Taken("tests/a/b/test_one.py::test_x", 1.0, 0.25),
        durations.Taken("tests/a/b/test_one.py::test_y[1|2]", 1.0, 3.0),
        durations.Taken("tests/test_two.py::test_z", 2.0, 0.5),
    ]
    lines = durations.page(rows, Cost(60.0, 120.0)).splitlines()
    assert any("3 tests; wall 1.0 min, CPU 2.0 min." in s for s in lines)
    tables = [line for line in lines if line.startswith("| tests")]
    assert tables[:4] == [
        "| tests/a/b | 2 | 3.2 | 2.0 |",
        "| tests | 1 | 0.5 | 2.0 |",
        "| tests/a/b/test_one.py | 2 | 3.2 | 2.0 |",
        "| tests/test_two.py | 1 | 0.5 | 2.0 |",
    ]
    assert tables[4] == "| tests/a/b/test_one.py::test_y[1 2] | 1 | 3.0 | 1.0 |"


def test_children_are_found_while_they_run() -> None:
    with subprocess.Popen([sys.executable, "-c", ENDLESS]) as child:
        try:
            assert child.pid in run.children(os.getpid())
        finally:
            child.kill()
