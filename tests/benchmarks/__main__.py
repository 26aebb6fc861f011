"""Run the benchmarks (`make bench`): every module of this folder with a `measure()`, into
bench.json and a table.

    python -m tests.benchmarks [NAME ...] [--output bench.json] [--splits 1]
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
import sys
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

import tests.benchmarks as package
from tests.benchmarks.figure import Figure


def main() -> int:
    """Measure, print and write; non-zero only when a benchmark itself failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="benchmark modules (default: all)")
    parser.add_argument("--output", type=Path, default=Path("bench.json"))
    parser.add_argument(
        "--splits", type=int, help="average over so many splits, where a benchmark has several"
    )
    arguments = parser.parse_args()
    console = Console()
    known = [m.name for m in pkgutil.iter_modules(package.__path__)]
    measuring = [
        n for n in known if n not in ("__main__", "contest", "figure") and not n.startswith("test_")
    ]
    names = arguments.names or measuring
    figures: list[Figure] = []
    for name in names:
        if name not in known:
            print(f"no benchmark {name!r}; there are {', '.join(known)}", file=sys.stderr)
            return 2
        with console.status(f"measuring {name} ..."):
            measure = importlib.import_module(f"tests.benchmarks.{name}").measure
            fewer = arguments.splits and "splits" in inspect.signature(measure).parameters
            figures.extend(measure(splits=arguments.splits) if fewer else measure())
    arguments.output.write_bytes(msgspec.json.format(msgspec.json.encode(figures)))
    table = Table("figure", "measured", "unit", "target", "met")
    for figure in figures:
        met = {True: "yes", False: "NO", None: ""}[figure.met]
        table.add_row(figure.name, f"{figure.value:,.4g}", figure.unit, figure.target, met)
    console.print(table)
    console.print(f"written to {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
