"""A visitor of `murmurec demo --mode split --keep` who takes part when a campaign has just begun:
the longest wait, since the stage is closed when the whole population has contributed as well.

From the visitor's contribution, by the page's requests, to the campaign that the page shows as
ended; a browser needs its own second before (`page`). Processor seconds are those of the processes
of the demo from the begin of the campaign to its end, a person: on a machine that is busy with
something else they tell more than the wait. Linux alone.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from math import nan
from pathlib import Path

from tests.benchmarks.figure import Figure
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.test_demo import answer
from tests.kafka.test_demo_campaign import contribute, is_open

_COMMAND = (sys.executable, "-m", "stream_app.cli", "demo", "--mode", "split", "--keep")
_PARTS = {  # of a command line -> whose work it is
    "java": "the broker",
    "--party a": "party a",
    "--party b": "party b",
    " gateway ": "the gateway",
    " worker ": "the worker",
    " demo ": "the devices",
}


def measure() -> list[Figure]:
    """Return the longest wait of a visitor, and the processor time of a contribution."""
    if not Path("/proc/self/stat").exists():
        return [Figure("a visitor of a campaign that has just begun: Linux alone", nan, "")]
    with _demo() as (process, lines):
        page = next(line.split()[2] for line in lines if line.startswith("the page: "))
        next(line for line in lines if line.startswith("campaign 2 begins"))
        before = _used(process.pid)
        until(lambda: is_open(page), "the stage is open")
        began = time.perf_counter()
        contribute(page)
        until(lambda: _is_counted(page), "the campaign has ended", 4 * PATIENCE_SECONDS, pause=0.2)
        waited = time.perf_counter() - began
        after = _used(process.pid)
        ended = next(line for line in lines if line.startswith("campaign 2:"))
    counted = int(re.sub(r".*: ([\d,]+) people counted.*", r"\1", ended).replace(",", ""))
    used = {part: 1000 * (after[part] - before[part]) / counted for part in after}
    name = "a campaign that has just begun"
    return [
        Figure(f"{name}: contribution of a visitor to the sum", waited, "s", "<= 30"),
        Figure(f"{name}: people counted", counted, ""),
        *(
            Figure(f"{name}: processor time of {part}, a person", used[part], "ms")
            for part in _PARTS.values()
        ),
        Figure(f"{name}: all processor time, a person", sum(used.values()), "ms"),
    ]


def _is_counted(page: str) -> bool:
    return json.loads(answer(page + "campaign"))["phase"] is None


@contextmanager
def _demo() -> Iterator[tuple[subprocess.Popen[str], Iterator[str]]]:
    """Run a demo for the length of the block; gives it and the lines that it prints."""
    with subprocess.Popen(
        _COMMAND, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process, iter(process.stdout)
        finally:
            process.terminate()
            process.stdout.read()


def _used(root: int) -> dict[str, float]:
    """Return the processor seconds of a process and all that it has started, by part."""
    found = dict[int, tuple[int, float, str]]()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it has ended
            continue
        ticks = int(fields[11]) + int(fields[12])
        found[int(folder.name)] = int(fields[1]), ticks / os.sysconf("SC_CLK_TCK"), command
    ours, used = {root}, defaultdict[str, float](float)
    while more := {each for each, (parent, _, _) in found.items() if parent in ours} - ours:
        ours |= more
    for process in ours & set(found):
        _, seconds, command = found[process]
        used[next((part for word, part in _PARTS.items() if word in command), "others")] += seconds
    return used
