"""Run the benchmarks (`make bench`): every module of this folder with a `measure()`, into a JSON
file and a table.

    python -m tests.benchmarks [NAME ...] [--output bench.json] [--report bench-report] [--splits 1]

The file is written anew after every benchmark, so that a run that is stopped leaves what it has. A
benchmark that fails is listed with its error, and the rest runs on; the command then ends with 1.
`--report` makes tables and plots of it, in a folder (`report.py`).
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
import time
import traceback
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.benchmarks import report
from tests.benchmarks.figure import Figure, shown
from tests.benchmarks.machine import conditions
from tests.benchmarks.runs import Line, Measured, Run

FOLDER = Path(__file__).parent


def main(words: list[str] | None = None) -> int:
    """Measure, print and write; 1 where a benchmark failed, 2 where the command is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks (default: all)")
    parser.add_argument("--output", type=Path, default=Path("bench.json"))
    parser.add_argument("--report", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--splits", type=int, help="average over so many splits, where a benchmark has several"
    )
    given = parser.parse_args(words)
    known = benchmarks()
    for name in given.names:
        if name not in known:
            print(f"no benchmark {name!r}: give of {', '.join(known)}", file=sys.stderr)
            return 2
    run = Run(conditions(), [])
    try:
        run.write(given.output)
    except OSError as error:
        print(f"--output {given.output}: {error.strerror}; give another file", file=sys.stderr)
        return 2
    console = Console()
    names = list(dict.fromkeys(given.names)) or known
    for number, name in enumerate(names, 1):
        step = f"{number}/{len(names)} {name}"
        with console.status(f"{step} ..."):
            run.benchmarks.append(measured(name, given.splits))
        run.write(given.output)
        last = run.benchmarks[-1]
        state = f"failed: {last.failed}" if last.failed else f"{len(last.figures)} figures"
        console.print(f"{step}: {state}, {last.seconds:.0f} s", markup=False, highlight=False)
    summarize(run, console)
    console.print(f"written to {given.output}")
    if given.report:
        drawn = report.write([run], given.report / "README.md")
        console.print(f"tables and {drawn} plots in {given.report}")
    return int(any(measured.failed for measured in run.benchmarks))


def benchmarks() -> list[str]:
    """Return the names of the modules that measure, without importing them."""
    paths = sorted(FOLDER.glob("*.py"))
    return [p.stem for p in paths if "\ndef measure(" in p.read_text(encoding="utf-8")]


def measured(name: str, splits: int | None = None) -> Measured:
    """Return the figures of one benchmark, or its error."""
    began = time.monotonic()
    figures: list[Figure] = []
    failed = ""
    try:
        measure = importlib.import_module(f"tests.benchmarks.{name}").measure
        fewer = splits and "splits" in inspect.signature(measure).parameters
        figures = list(measure(splits=splits) if fewer else measure())
    except Exception as error:  # noqa: BLE001 - one benchmark must not cost the others' figures
        traceback.print_exc()
        failed = f"{type(error).__name__}: {error}".splitlines()[0]
    seconds = round(time.monotonic() - began, 1)
    return Measured(name, seconds, [Line.of(figure) for figure in figures], failed)


def summarize(run: Run, console: Console) -> None:
    """Print the table of all figures, and what there is none of."""
    table = Table("figure", "measured", "low .. high", "unit", "target", "met")
    for each in run.benchmarks:
        table.add_section()
        for figure in (line.figure() for line in each.figures):
            met = {True: "yes", False: "NO", None: ""}[figure.met]
            spread = "" if figure.low is None else f"{shown(figure.low)} .. {shown(figure.high)}"
            table.add_row(figure.name, shown(figure.value), spread, figure.unit, figure.target, met)
    console.print(table)
    for each in run.benchmarks:
        if each.failed:
            console.print(f"failed: {each.name}: {each.failed}", markup=False)
    for name in run.absent():
        console.print(f"without a value: {name}", markup=False)


if __name__ == "__main__":
    sys.exit(main())
