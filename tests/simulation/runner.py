"""Many schedules on several processes: each runs a piece of the seeds and returns counts."""

from __future__ import annotations

import gc
import json
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.simulation.coverage import Coverage
from tests.simulation.process import Variant
from tests.simulation.schedule import Schedule

PIECE = 1000


@dataclass
class Result:
    """The coverage, and the seeds of schedules that violated an invariant."""

    coverage: Coverage = field(default_factory=Coverage)
    failures: list[tuple[int, str]] = field(default_factory=list)

    def add(self, part: Result) -> None:
        """Add the result of other seeds."""
        self.coverage.add(part.coverage)
        self.failures += part.failures


def run(
    schedules: int,
    first: int,
    workers: int,
    report: Callable[[Result], None] = lambda _: None,
    journal: Path | None = None,
) -> Result:
    """Run the seeds `first` to `first + schedules`; `report` is called with each finished piece.

    `journal` keeps finished pieces: a run with the same file goes on where an earlier one ended.
    """
    total = Result()
    pieces = {
        at: min(PIECE, first + schedules - at) for at in range(first, first + schedules, PIECE)
    }
    for start, part in _journalled(journal):
        if pieces.get(start) == part.coverage.schedules:
            del pieces[start]
            total.add(part)
            report(part)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=gc.disable) as pool:
        running = {pool.submit(run_piece, at, size): at for at, size in pieces.items()}
        for finished in as_completed(running):
            part = finished.result()
            total.add(part)
            report(part)
            if journal is not None:
                with journal.open("a") as file:
                    file.write(json.dumps([running[finished], asdict(part)]) + "\n")
    total.failures.sort()
    return total


def _journalled(journal: Path | None) -> list[tuple[int, Result]]:
    """Return the first seed and the result of each piece in a journal; removes a torn last line."""
    if journal is None or not journal.exists():
        return []
    lines = [each for each in journal.read_text().splitlines(keepends=True) if each[-1:] == "\n"]
    journal.write_text("".join(lines))
    parts = []
    for start, part in map(json.loads, lines):
        failures = [(seed, why) for seed, why in part["failures"]]
        parts.append((start, Result(Coverage(**part["coverage"]), failures)))
    return parts


def run_piece(first: int, schedules: int) -> Result:
    """Run some schedules here."""
    result = Result()
    for seed in range(first, first + schedules):
        violated = Schedule(seed, Variant(), result.coverage).run()
        if violated is not None:
            result.failures.append((seed, violated))
    return result


def first_kill(variant: Variant, seeds: int) -> tuple[int, str] | None:
    """Return the first seed below `seeds` at which a variant violates something, and what.

    No bit flips: a mutant must die of its own mistake.
    """
    for seed in range(seeds):
        violated = Schedule(seed, variant, Coverage()).run(flips=False)
        if violated is not None:
            return seed, violated
    return None
