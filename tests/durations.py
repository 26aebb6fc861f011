"""Where the time of the tests goes: a plugin that notes what each test took, and the page of it.

    make durations        runs `make test` with it and writes build/durations.md

CPU time is that of the test process and of the processes below it, ended or not, while the test
ran. The broker belongs to all tests: its time is in the total of the run alone.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.run import Cost, children

_FOLDER = Path(tempfile.gettempdir()) / f"murmurec-durations-{os.getuid()}"
_TICKS = os.sysconf("SC_CLK_TCK")
_MOST_FOLDERS, _MOST_FILES, _MOST_TESTS = 15, 12, 10


@dataclass(frozen=True)
class Taken:
    """What a test took."""

    test: str
    wall: float
    cpu: float


# --- the plugin -----------------------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    """Forget the last run."""
    _FOLDER.mkdir(exist_ok=True)
    if not hasattr(config, "workerinput"):
        for path in _FOLDER.iterdir():
            path.unlink()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note what a test takes, its fixtures included."""
    began, before = time.monotonic(), _cpu_seconds()
    result = yield
    # What a process that ended elsewhere had used is no longer below this one.
    cpu = max(0.0, _cpu_seconds() - before)
    row = [item.nodeid, time.monotonic() - began, cpu]
    with (_FOLDER / str(os.getpid())).open("a") as file:
        file.write(json.dumps(row) + "\n")
    return result


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of all below it."""
    used = os.times()
    below = sum(map(_cpu_below, children(os.getpid())))
    return used.user + used.system + used.children_user + used.children_system + below


def _cpu_below(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS + sum(map(_cpu_below, children(process)))


# --- the page -------------------------------------------------------------------------------------


def read() -> list[Taken]:
    """Return what every test of the last run took."""
    lines = [line for path in _FOLDER.iterdir() for line in path.read_text().splitlines()]
    return [Taken(*json.loads(line)) for line in lines]


def page(rows: list[Taken], cost: Cost) -> str:
    """Return the page: the whole run, folders, files and tests."""
    folders, files = defaultdict[str, list[Taken]](list), defaultdict[str, list[Taken]](list)
    for row in rows:
        path = row.test.partition("::")[0]
        files[path].append(row)
        folders["/".join(Path(path).parts[:-1][:3])].append(row)
    return "\n".join(
        [
            "# Where the time of `make test` goes",
            "",
            f"{len(rows):,} tests; {cost}.",
            "",
            "Written by `make durations`, the costliest rows of each; compare shares: processors",
            "differ. The broker's time is in the first line alone.",
            "",
            *_table("folder", folders, _MOST_FOLDERS),
            *_table("file", files, _MOST_FILES),
            *_table("test", {row.test: [row] for row in rows}, _MOST_TESTS),
        ]
    )


def _table(name: str, groups: dict[str, list[Taken]], most: int) -> list[str]:
    def cpu(rows: list[Taken]) -> float:
        return sum(row.cpu for row in rows)

    chosen = sorted(groups.items(), key=lambda pair: -cpu(pair[1]))[:most]
    lines = [f"| {name} | tests | CPU s | wall s |", "|---|---:|---:|---:|"]
    for key, rows in chosen:
        wall = sum(row.wall for row in rows)
        lines.append(f"| {key.replace('|', ' ')} | {len(rows):,} | {cpu(rows):.1f} | {wall:.1f} |")
    return [*lines, ""]


def write(path: Path, cost: Cost) -> None:
    """Write the page of the last run."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(page(read(), cost))
