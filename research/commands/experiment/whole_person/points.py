"""What is measured, and one point of a panel: accuracy by the epsilon of a whole person.

    rr, partition   everybody reports so many ratings, at random, with so much epsilon each as
                    carries most within a budget (`murmurec device plan`)
    rr, for lists   everybody reports every rating; epsilon is that of a person of mean activity
    cell, like      everybody reports every cell of the scope: all spend the same
    campaign        everybody contributes to every stage: all spend the same

Every epsilon is exact composition over all reports of the person. `rr` and `partition` hide the
stars alone: which items a person has rated is public, whatever they spend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from stream_app.privacy.accounting.budget_plans import ExactPlan

DELTA = Fraction(1, 10**6)
ERRORS, LISTS = "errors", "lists"
Row = dict[str, Any]
Run = Callable[[], Row]


def _fractions(text: str) -> tuple[Fraction, ...]:
    return tuple(map(Fraction, text.split()))


@dataclass(frozen=True)
class Grid:
    """Which points are measured: epsilons of a person, but of a report for rr lists and cells."""

    campaigns: tuple[Fraction, ...] = _fractions("1/2 1 2 4 8")
    shared: tuple[Fraction, ...] = _fractions("1 2 4")
    budgets: tuple[Fraction, ...] = _fractions("1/2 1 2 4 8 16 32 64 128 256 512")
    ratings: tuple[Fraction, ...] = _fractions("1/2 1 2")
    cells: tuple[Fraction, ...] = _fractions("1/8 1/4 1/2 1 2")


QUICK = Grid(*map(_fractions, ("1 4", "2", "4 32 256", "1 2", "1/4 1")))


@dataclass(frozen=True)
class WholePersonOptions:
    """Parameters of a measurement.

    splits: how many splits and draws of the noise, from `seed` on, are averaged.
    """

    grid: Grid = Grid()
    model: str = "dense"
    factors: int = 8
    scope: int = 300
    seed: int = 0
    splits: int = 1

    @property
    def seeds(self) -> list[int]:
        """The seed of each split."""
        return list(range(self.seed, self.seed + self.splits))


def person_epsilon(id: str, reports: int) -> float:
    """Return the epsilon at `DELTA` of a person with so many reports, by exact composition."""
    return ExactPlan(((id, reports),), DELTA).spent({id: reports})


def point(
    panel: str, family: str, epsilon: float, value: float, *, variant: str = "", spent: str
) -> Row:
    """Return a point; variant: the mode of a campaign; spent: what the person spends it on."""
    return {
        "panel": panel,
        "family": family,
        "variant": variant,
        "person_epsilon": epsilon,
        "value": value,
        "spent": spent,
    }
