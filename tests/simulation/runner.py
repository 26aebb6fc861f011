"""Many schedules on several processes: each runs a piece of the seeds and returns counts."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field

from tests.simulation.coverage import Coverage
from tests.simulation.process import Variant
from tests.simulation.schedule import Schedule

PIECE = 1000


@dataclass
class Result:
    """The coverage, and the seeds of schedules that violated an invariant."""

    coverage: Coverage = field(default_factory=Coverage)
    failures: list[tuple[int, str]] = field(default_factory=list)


def run(
    schedules: int, first: int, workers: int, report: Callable[[int], None] = lambda _: None
) -> Result:
    """Run the seeds `first` to `first + schedules`; `report` is called with how many were done."""
    pieces = [(at, min(PIECE, first + schedules - at)) for at in _starts(first, schedules)]
    total = Result()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=gc.disable) as pool:
        for done in as_completed([pool.submit(run_piece, *piece) for piece in pieces]):
            part = done.result()
            total.coverage.add(part.coverage)
            total.failures += part.failures
            report(part.coverage.schedules)
    total.failures.sort()
    return total


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


def _starts(first: int, schedules: int) -> range:
    return range(first, first + schedules, PIECE)
