"""How many reports the budget of a whole person holds, and what those on record cost the person.

    used     what counts in the window: mechanism id -> reports, nano-epsilon, 10^-18 of delta
    room     one planned mechanism: the most reports that fit what the others leave, less those
             used; an adaptive plan: what fits after the sum of all that was used

Reports of an account that an older murmurec has kept have no mechanism on record; they are charged
at the sum of their epsilons and deltas (basic composition: Dwork and Roth 2014, Thm 3.16).

The cost of a check does not depend on the history: the counts are kept, and how many reports fit is
computed once for a mechanism and a budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

from producers.person.enrolment import ADAPTIVE, ATTO, NANO, PersonBudget

NOTHING = "nothing"  # the adjacency of a mechanism that claims no protection
MOST_REPORTS = 2**62  # of a mechanism that costs nothing


class Costing(Protocol):
    """The part of a mechanism, a frozen value, that its cost depends on."""

    @property
    def id(self) -> str:
        """The wire id."""

    @property
    def adjacency(self) -> str:
        """What the epsilon protects."""

    @property
    def epsilon(self) -> Fraction | None:
        """The claim per report; None where nothing is claimed."""


@dataclass(slots=True)
class Used:
    """What one mechanism has used: reports, and the sums of their nano-epsilon and delta."""

    reports: int = 0
    nano: int = 0
    atto: int = 0

    def add(self, reports: int, nano: int, atto: int) -> None:
        """Add the debit of a release; negative numbers take an old one out."""
        self.reports += reports
        self.nano += nano
        self.atto += atto


def room(
    budget: PersonBudget, used: Mapping[str, Used], mechanism: Costing, plan: str = ""
) -> int | None:
    """Return how many more reports of a mechanism fit; None without a limit.

    `plan` replaces the budget's where an earlier release of the same record has decided it. 0 for a
    mechanism that protects nothing, and for one that is not the planned one.
    """
    if budget.nano is None:
        return None
    plan = plan or budget.plan or mechanism.id
    if mechanism.epsilon is None or plan not in (ADAPTIVE, mechanism.id):
        return 0
    nano, atto = budget.nano, budget.atto
    before = 0
    for id, amount in used.items():
        if id == mechanism.id and plan != ADAPTIVE:
            before = amount.reports
        else:
            nano, atto = nano - amount.nano, atto - amount.atto
    return max(0, most_reports(mechanism, nano, atto) - before)


def spent(used: Mapping[str, Used], atto: int) -> int:  # noqa: ARG001
    """Return the nano-epsilon that these reports cost the whole person at this delta in 10^-18,
    rounded up."""
    return sum(amount.nano for amount in used.values())


def sums(used: Mapping[str, Used], more: Mapping[str, Used]) -> dict[str, Used]:
    """Return what both have used together."""
    found = {id: replace(amount) for id, amount in used.items()}
    for id, amount in more.items():
        found.setdefault(id, Used()).add(amount.reports, amount.nano, amount.atto)
    return found


def most_reports(mechanism: Costing, nano: int, atto: int) -> int:
    """Return the most reports of one mechanism within (nano-epsilon, 10^-18 of delta)."""
    if nano < 0 or atto < 0 or mechanism.epsilon is None:
        return 0
    known: Any = mechanism  # a frozen value, and so hashable
    return _most(known, nano, atto)


@lru_cache(maxsize=4096)
def _most(mechanism: Any, nano: int, atto: int) -> int:
    delta = getattr(mechanism, "delta", None) or Fraction(0)
    pairs = ((nano, NANO, mechanism.epsilon), (atto, ATTO, delta))
    counts = [
        left * each.denominator // (each.numerator * unit) for left, unit, each in pairs if each
    ]
    return min(counts, default=MOST_REPORTS)
