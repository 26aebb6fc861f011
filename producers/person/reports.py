"""How many reports the budget of a whole person holds.

    used     what counts in the window: mechanism id -> reports, nano-epsilon, 10^-18 of delta
    room     one planned mechanism: the most reports whose exact composition fits, less those used;
             an adaptive plan: what fits a Renyi filter; delta 0: sums of pure epsilons

The arithmetic is `stream_app.privacy.accounting`'s, from the integer tables that are sampled.
Reports of an account that an older murmurec has kept have no mechanism on record; they are charged
at the sum of their epsilons and deltas, which the budget has less (basic composition: Dwork and
Roth 2014, Thm 3.16). So is a mechanism that no registry knows.

The cost of a check does not depend on the history: the counts are kept, and how many reports fit is
computed once for a mechanism and a budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

from producers.person.enrolment import ADAPTIVE, ATTO, NANO, SUM, PersonBudget
from stream_app.privacy.accounting import budget_plans
from stream_app.privacy.accounting.whole_person import sum_cost

NOTHING = "nothing"  # the adjacency of a mechanism that claims no protection
MOST_REPORTS = 2**62  # of a mechanism that costs nothing
_LEAST_ATTO = budget_plans.LEAST_DELTA * ATTO  # below it only sums of pure epsilons hold


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
    """What one mechanism has used: reports, the sums of their nano-epsilon and delta, and how many
    are `again`: of cells that were reported before."""

    reports: int = 0
    nano: int = 0
    atto: int = 0
    again: int = 0

    def add(self, reports: int, nano: int, atto: int, again: int = 0) -> None:
        """Add the debit of a release; negative numbers take an old one out."""
        self.reports += reports
        self.nano += nano
        self.atto += atto
        self.again += again


def room(
    budget: PersonBudget, used: Mapping[str, Used], mechanism: Costing, plan: str = ""
) -> int | None:
    """Return how many more reports of a mechanism fit; None without a limit.

    `plan` replaces the budget's where an earlier release of the same record has decided it. 0 for a
    mechanism that protects nothing, and for one that is not planned.
    """
    if budget.nano is None:
        return None
    plan = plan or budget.plan or mechanism.id
    if mechanism.epsilon is None or not allows(plan, mechanism.id):
        return 0
    left = _left_by_old(budget, used)
    if left.nano < 0 or left.atto < 0:
        return 0
    if not is_known(mechanism.id):
        return _room_of_sums(left, used, mechanism)
    if plan == mechanism.id:
        before = used[mechanism.id].reports if mechanism.id in used else 0
        return max(0, _most(mechanism.id, left.nano, left.atto) - before)
    planned = _plan(plan, budget, left)
    return 0 if planned is None else planned.room(_counts(used), mechanism.id)


def held(budget: PersonBudget, used: Mapping[str, Used]) -> Fraction:
    """Return a bound of the delta that the budget's exact plan can use at the budget's epsilon.

    All of it where the plan is no exact one, or old reports leave it less than the budget.
    """
    whole, delta = _Left(budget.nano or 0, budget.atto), Fraction(budget.atto, ATTO)
    if used.get("", Used()).nano or budget.atto < _LEAST_ATTO or budget.plan in (ADAPTIVE, SUM):
        return delta
    if "*" in budget.plan:
        planned = _plan(budget.plan, budget, whole)
        counts = planned.counts if isinstance(planned, budget_plans.ExactPlan) else ()
    elif is_known(budget.plan):
        counts = ((budget.plan, _most(budget.plan, whole.nano, whole.atto)),)
    else:
        return delta
    reached = budget_plans.delta_at(counts, whole.epsilon)
    return min(delta, Fraction(math.ceil(reached * ATTO), ATTO))


def allows(plan: str, id: str) -> bool:
    """Return whether reports of a mechanism are part of a plan."""
    return plan in (ADAPTIVE, SUM) or id in [part.partition("*")[0] for part in plan.split(",")]


@dataclass(frozen=True)
class _Left:
    """What reports without a mechanism on record leave of a budget."""

    nano: int
    atto: int

    @property
    def epsilon(self) -> Fraction:
        return Fraction(self.nano, NANO)

    @property
    def delta(self) -> Fraction:
        return Fraction(self.atto, ATTO)


def _left_by_old(budget: PersonBudget, used: Mapping[str, Used]) -> _Left:
    old = used.get("", Used())
    atto = budget.atto - int(budget.held * ATTO)
    return _Left((budget.nano or 0) - old.nano, atto - old.atto)


def _counts(used: Mapping[str, Used]) -> dict[str, int]:
    return {id: amount.reports for id, amount in used.items() if id and amount.reports}


def _room_of_sums(left: _Left, used: Mapping[str, Used], mechanism: Costing) -> int:
    nano = left.nano - sum(amount.nano for id, amount in used.items() if id)
    atto = left.atto - sum(amount.atto for id, amount in used.items() if id)
    delta = getattr(mechanism, "delta", None) or Fraction(0)
    pairs = ((nano, NANO, mechanism.epsilon), (atto, ATTO, delta))
    counts = [
        max(0, less) * each.denominator // (each.numerator * unit)
        for less, unit, each in pairs if each
    ]  # fmt: skip
    return min(counts, default=MOST_REPORTS)


@lru_cache(maxsize=4096)
def is_known(id: str) -> bool:
    """Return whether the accounting knows a mechanism by its id."""
    try:
        sum_cost(id)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=4096)
def _most(id: str, nano: int, atto: int) -> int:
    """Return the most reports of one mechanism within (nano-epsilon, 10^-18 of delta)."""
    left = _Left(nano, atto)
    if atto < _LEAST_ATTO:
        return budget_plans.SumPlan(left.epsilon, left.delta).room({}, id)
    return budget_plans.largest_count(id, left.epsilon, left.delta)


def _plan(plan: str, budget: PersonBudget, left: _Left) -> budget_plans.Plan | None:
    """Return a plan over what is left, None where that does not hold it; the order of a filter is
    the budget's, never changed by what was reported."""
    if plan == SUM or left.atto < _LEAST_ATTO:
        return budget_plans.SumPlan(left.epsilon, left.delta)
    if plan == ADAPTIVE:
        epsilon = Fraction(budget.nano or 0, NANO)
        if epsilon > budget_plans.LARGEST_EPSILON:  # of an account that an older murmurec enrolled
            return None
        plan = _order(epsilon, Fraction(budget.atto, ATTO) - budget.held)
    return _checked(plan, left.nano, left.atto)


@lru_cache(maxsize=4096)
def _checked(plan: str, nano: int, atto: int) -> budget_plans.Plan | None:
    """Return a completed plan; None unless (nano-epsilon, 10^-18 of delta) holds all of it."""
    left = _Left(nano, atto)
    try:
        return budget_plans.read_plan(plan, left.epsilon, left.delta)
    except ValueError:
        return None


@lru_cache(maxsize=64)
def _order(epsilon: Fraction, delta: Fraction) -> str:
    return budget_plans.pin(ADAPTIVE, epsilon, delta)


def sums(used: Mapping[str, Used], more: Mapping[str, Used]) -> dict[str, Used]:
    """Return what both have used together."""
    found = {id: replace(amount) for id, amount in used.items()}
    for id, amount in more.items():
        found.setdefault(id, Used()).add(amount.reports, amount.nano, amount.atto, amount.again)
    return found
