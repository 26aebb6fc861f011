"""Tables and plots of runs, as Markdown.

    python -m tests.benchmarks.report                              # results/*.json: README.md here
    python -m tests.benchmarks.report RUN.json ... [--output FILE] # bench-report/README.md

Committed runs are shown by their plots and by the figures that have a target, other runs by all
figures; a point of a plot is in the plot and in the file of the run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from tests.benchmarks.figure import shown
from tests.benchmarks.machine import PEERS
from tests.benchmarks.plots import FORMS, Plot, draw, plots
from tests.benchmarks.runs import Measured, Run, read

FOLDER = Path(__file__).parent
COMMITTED = FOLDER / "results"
HEAD = """# Benchmarks

    make bench                                # all: bench.json, and bench-report/ of it
    make bench ARGS="learning pipeline"       # some
    MURMUREC_DATA=FOLDER make bench           # with MovieLens files from FOLDER
    .venv/bin/python -m pip install 'murmurec[peers]'

Made of the runs in `tests/benchmarks/results/` by `python -m tests.benchmarks.report`. Figures
without a target are in these files alone. Contenders take turns in one process: the median of the
rounds by CPU time, with the lowest and the highest. Figures of papers: docs/papers.md.
"""


def main(words: list[str] | None = None) -> int:
    """Write the page and its plots; 2 where the command is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="files of `make bench`")
    parser.add_argument("--output", type=Path, help="default: bench-report/README.md")
    given = parser.parse_args(words)
    output = given.output or (Path("bench-report") if given.runs else FOLDER) / "README.md"
    try:
        runs = [read(path) for path in given.runs or committed()]
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    try:
        drawn = write(runs, output, every=bool(given.runs))
    except OSError as error:
        print(f"--output {output}: {error.strerror}; give another file", file=sys.stderr)
        return 2
    print(f"written to {output}, with {drawn} plots")
    return 0


def write(runs: Sequence[Run], output: Path, *, every: bool = True) -> int:
    """Write the page, and its plots beside it; return how many plots.

    Without matplotlib there are none, and a sentence on the standard error says so.
    """
    drawn = plots_of(runs)
    if drawn and find_spec("matplotlib") is None:
        print("no plots: they need matplotlib (pip install matplotlib)", file=sys.stderr)
        drawn = []
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(page(runs, drawn, every=every), encoding="utf-8")
    if drawn:
        (output.parent / "plots").mkdir(exist_ok=True)
    for plot in drawn:
        draw(plot, output.parent / "plots")
    return len(drawn)


def committed() -> list[Path]:
    """Return the runs that the README is made of, in the order of their names."""
    return sorted(COMMITTED.glob("*.json"))


def plots_of(runs: Sequence[Run]) -> list[Plot]:
    """Return the plots of all runs together."""
    return plots(line.figure() for run in runs for each in run.benchmarks for line in each.figures)


def page(runs: Sequence[Run], drawn: Sequence[Plot], *, every: bool = True) -> str:
    """Return the page, which is a function of what is given alone: with every figure, or with those
    that have a target."""
    parts = [HEAD]
    if drawn:
        parts.append("## Curves\n")
        parts += [
            f"![{plot.title}: {plot.y} by {plot.x}](plots/{plot.file}.svg)\n" for plot in drawn
        ]
    for run in runs:
        parts += [f"## Run of {run.conditions.began[:10]}\n", stated(run)]
        parts += filter(None, (table(each, every=every) for each in run.benchmarks))
    return "\n".join(parts)


def stated(run: Run) -> str:
    """Return the conditions of a run and its missed targets, a list."""
    given = run.conditions
    packages = {name: version for name, version in given.packages.items() if version}
    own = ", ".join(f"{name} {v}" for name, v in packages.items() if name not in PEERS)
    peers = ", ".join(f"{name} {v}" for name, v in packages.items() if name in PEERS)
    absent = ", ".join(name for name in PEERS if name not in packages)
    aimed = [line for each in run.benchmarks for line in each.figures if line.met is not None]
    missed = [line for line in aimed if not line.met]
    threads = ", ".join(f"{name} = {value}" for name, value in given.threads.items())
    lines = [
        f"- {given.machine}, {given.machine.system}; load average {given.load_average[0]:g}"
        + (f"; {threads}" if threads else ""),
        f"- Python {given.python}, {own}; commit {given.commit or 'unknown'}",
        f"- peers: {peers or 'none'}" + (f"; not installed: {absent}" if absent else ""),
        f"- targets met: {len(aimed) - len(missed)} of {len(aimed)}",
    ]
    lines += [
        f"- missed: {line.name}: {shown(line.value)} {line.unit}, wanted {line.target}"
        for line in missed
    ]
    return "\n".join(lines) + "\n"


def table(measured: Measured, *, every: bool) -> str:
    """Return the figures of one benchmark, or its error, under its name; empty without any."""
    title = f"### `{measured.name}` ({measured.seconds:.0f} s)\n"
    if measured.failed:
        return f"{title}\nFailed: {measured.failed}\n"
    rows = ["| figure | measured (low..high) |", "|---|---|"]
    for line in measured.figures:
        if plotted(line.name) or not (every or line.target):
            continue
        spread = "" if line.low is None else f" ({shown(line.low)}..{shown(line.high)})"
        met = {True: ": met", False: ": missed", None: ""}[line.met]
        wanted = f", wanted {line.target}{met}" if line.target else ""
        name = line.name.replace("|", "\\|")
        value = f"{shown(line.value)} {line.unit}".strip()
        rows.append(f"| {name} | {value}{spread}{wanted} |")
    return title + "\n" + "\n".join(rows) + "\n" if len(rows) > 2 else ""


def plotted(name: str) -> bool:
    """Return whether a figure is a point of a plot, by its name."""
    return any(form.fullmatch(name) for form in FORMS.values())


if __name__ == "__main__":
    sys.exit(main())
