"""Contenders that do the same work in turn within one process, so that their ratio holds.

Absolute speeds drift by a third on a shared machine within minutes; contenders that alternate drift
together. Each does one unmeasured round first, which compiles and fills caches. The clock is the
CPU time of the process (all its threads), unless said otherwise.
"""

from __future__ import annotations

import gc
import importlib
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tests.benchmarks.figure import Figure

ROUNDS = 5


@dataclass(frozen=True)
class Contender:
    """A way to do `units` pieces of work in one call of `run`; `prepare` is not measured, and its
    result is what `run` gets."""

    name: str
    run: Callable[[Any], object]
    units: float = 1.0
    prepare: Callable[[], Any] = lambda: None


@dataclass(frozen=True)
class Seconds:
    """Seconds that each piece of work took, one number a round, in the order of the rounds."""

    name: str
    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median round."""
        return statistics.median(self.rounds)

    def times_faster_than(self, other: Seconds, name: str = "", target: str = "") -> Figure:
        """Return the median of the rounds' ratios, with the lowest and the highest of them."""
        ratios = [theirs / ours for ours, theirs in zip(self.rounds, other.rounds, strict=True)]
        return Figure(
            name or f"{self.name}, times faster than {other.name}",
            statistics.median(ratios),
            "x",
            target,
            low=min(ratios),
            high=max(ratios),
        )

    def rate(self, unit: str, scale: float = 1.0, target: str = "") -> Figure:
        """Return pieces of work a second, times `scale`."""
        return Figure(
            self.name,
            scale / self.median,
            unit,
            target,
            low=scale / max(self.rounds),
            high=scale / min(self.rounds),
        )


def contest(
    contenders: Sequence[Contender],
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, Seconds]:
    """Return the seconds of each contender by name, after `rounds` rounds in alternation."""
    taken: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for number in range(rounds + 1):
        # The order turns, so that nobody always runs on the caches of the same neighbour.
        turn = number % len(contenders)
        for contender in (*contenders[turn:], *contenders[:turn]):
            given = contender.prepare()
            # What others keep in memory must not be traversed at the cost of whoever runs.
            gc.collect()
            gc.freeze()
            began = clock()
            contender.run(given)
            seconds = clock() - began
            gc.unfreeze()
            if number:
                taken[contender.name].append(seconds / contender.units)
    return {name: Seconds(name, tuple(rounds)) for name, rounds in taken.items()}


def peer(module: str) -> ModuleType | None:
    """Return a peer's module, None where it is not installed (`pip install murmurec[peers]`)."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def not_installed(name: str, module: str) -> Figure:
    """Return the row of a peer that is not there."""
    return Figure(f"{name} (skipped: {module} is not installed)", float("nan"), "")
