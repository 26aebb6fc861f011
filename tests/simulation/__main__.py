"""Run random schedules of the checkpoint protocol (`make simulate`).

python -m tests.simulation [--schedules N] [--seed S] [--workers 2] [--journal FILE]
python -m tests.simulation --seed S --journal FILE               go on where the last run ended
python -m tests.simulation --seed S --schedules 1 --verbose      replay one and print its trace
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from tests.simulation.coverage import Coverage
from tests.simulation.process import Variant
from tests.simulation.runner import Result, run
from tests.simulation.schedule import Schedule

_MOST_SHOWN = 20
_LINE = 50_000  # schedules between two lines of a log


def main() -> int:
    """Simulate and report; 1 where anything was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--schedules", type=int, default=3_000_000)
    parser.add_argument("--seed", type=int, default=None, help="the first one (default: drawn)")
    parser.add_argument("--workers", type=int, default=2, help="processes that simulate")
    parser.add_argument("--journal", type=Path, help="keeps what was run; needs --seed")
    parser.add_argument("--verbose", action="store_true", help="print what happens, seed by seed")
    arguments = parser.parse_args()
    if arguments.schedules < 1 or arguments.workers < 1:
        parser.error("--schedules and --workers: give at least 1")
    if arguments.journal is not None and arguments.seed is None:
        parser.error("--journal: give --seed, too")
    seed = secrets.randbelow(2**48) if arguments.seed is None else arguments.seed
    console = Console()
    console.print(f"first seed {seed}", highlight=False)
    if arguments.verbose:
        return _replay(console, seed, arguments.schedules)
    began = time.perf_counter()
    result = _simulate(console, seed, arguments)
    return _report(console, result, time.perf_counter() - began)


def _simulate(console: Console, seed: int, arguments: argparse.Namespace) -> Result:
    columns = (TextColumn("schedules"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    done = wrong = 0
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=arguments.schedules)

        def report(part: Result) -> None:
            nonlocal done, wrong
            progress.advance(task, part.coverage.schedules)
            before, done = done, done + part.coverage.schedules
            wrong += len(part.failures)
            if progress.disable and before // _LINE != done // _LINE:
                console.print(f"{done:,} schedules, {wrong} wrong", highlight=False)

        return run(arguments.schedules, seed, arguments.workers, report, journal=arguments.journal)


def _report(console: Console, result: Result, seconds: float) -> int:
    table = Table("met", "times")
    for name, times in asdict(result.coverage).items():
        table.add_row(name.replace("_", " "), f"{times:,}")
    console.print(table)
    schedules = result.coverage.schedules
    console.print(
        f"{schedules:,} schedules in {seconds:,.1f} s, {schedules / seconds:,.0f} per second, "
        f"{len(result.failures)} wrong",
        highlight=False,
    )
    for seed, violated in result.failures[:_MOST_SHOWN]:
        console.print(f"seed {seed}: {violated}", highlight=False)
    return bool(result.failures)


def _replay(console: Console, first: int, schedules: int) -> int:
    wrong = 0
    for seed in range(first, first + schedules):
        trace: list[str] = []
        violated = Schedule(seed, Variant(), Coverage(), trace).run()
        console.print(f"seed {seed}: {violated or 'nothing wrong'}", highlight=False)
        for line in trace:
            console.print(f"  {line}", highlight=False)
        wrong += violated is not None
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
