"""How to spend a person's budget: how many ratings to report, and with how much epsilon each.

    maximise   min(reports that the budget admits, ratings expected) x phi(epsilon)

over a fixed grid of epsilons, where phi is the share of a rating's information that a report
carries (`information_fraction.py`). The budget holds in any `window` days; over a longer horizon
each window has a budget of its own, and its share of the ratings. Among equals the smaller epsilon
is taken. All of it is public: budget, grid and number of ratings expected, and no rating.

The same with reports counted by basic composition (epsilons added, delta 0) is what exact
composition is compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from producers.person.enrolment import PersonBudget
from producers.person.plans import checked_plan
from stream_app.privacy import registry
from stream_app.privacy.accounting.budget_plans import LEAST_DELTA, fits, largest_count
from stream_app.privacy.profiles.profile_mechanism import MOST_ITEMS
from stream_app.privacy.ratings.information_fraction import information_fraction

GRID = tuple(Fraction(n, 4) for n in (1, 2, 4, 6, 8, 10, 12, 16, 20, 24))
MOST_RATINGS = 10**6


@dataclass(frozen=True)
class SpendingPlan:
    """So many reports of one mechanism in each of `windows` windows.

    `information` is that of one window, in clean ratings.
    """

    mechanism: str
    epsilon: Fraction
    reports: int
    information: float
    windows: int = 1

    @property
    def plan(self) -> str:
        """The plan of an account, as `partition:5:5/2*8`."""
        return f"{self.mechanism}*{self.reports}"


@dataclass(frozen=True)
class Expected:
    """How many ratings a person gives in `horizon` days (None: as long as the window)."""

    ratings: int
    horizon: int | None = None

    def __post_init__(self) -> None:
        for name, number in (("ratings", self.ratings), ("horizon", self.horizon)):
            if number is not None and not 1 <= number <= MOST_RATINGS:
                raise ValueError(f"{name} {number}: give a whole number from 1 to {MOST_RATINGS}")

    def windows(self, budget: PersonBudget) -> int:
        """Return how many whole windows the horizon has, 1 at least."""
        if budget.window is None or self.horizon is None:
            return 1
        return max(1, self.horizon // budget.window)

    def in_window(self, budget: PersonBudget) -> int:
        """Return the ratings expected in one window, rounded up."""
        return -(-self.ratings // self.windows(budget))


def best_plan(
    budget: PersonBudget, expected: Expected, *, family: str = "partition", levels: int = 5
) -> SpendingPlan:
    """Return the plan with the most information that the exact accountant admits.

    ValueError for a budget without a limit, one that holds no report of the grid, a delta below
    1e-15, and a family that protects presence or takes no such levels.

    >>> best_plan(PersonBudget(), Expected(165)).plan
    'partition:5:5/2*8'
    """
    limit = _limit(budget)

    def admitted(id: str, most: int) -> int:
        if fits(((id, most),), limit, budget.delta, MOST_ITEMS):
            return most
        return min(most, largest_count(id, limit, budget.delta))

    found = _best(budget, expected, (family, levels), admitted)
    checked_plan(found.plan, budget)  # the check that enrolment repeats
    return found


def best_plan_by_sums(
    budget: PersonBudget, expected: Expected, *, family: str = "partition", levels: int = 5
) -> SpendingPlan:
    """Return the plan with the most information whose epsilons add up to the budget at most."""
    limit = _limit(budget)

    def admitted(id: str, most: int) -> int:
        return min(most, int(limit / (registry.parse(id).epsilon or limit)))

    return _best(budget, expected, (family, levels), admitted)


def reports_by_sums(budget: PersonBudget, plan: SpendingPlan) -> int:
    """Return how many reports of a plan basic composition admits."""
    return min(plan.reports, int(_limit(budget) / plan.epsilon))


def _best(
    budget: PersonBudget,
    expected: Expected,
    kind: tuple[str, int],
    admitted: Callable[[str, int], int],
) -> SpendingPlan:
    most, windows, best = expected.in_window(budget), expected.windows(budget), None
    for epsilon in GRID:
        id = registry.mechanism(*kind, epsilon).id
        count = admitted(id, most)
        information = count * information_fraction(id)
        if count and (best is None or information > best.information):
            best = SpendingPlan(id, epsilon, count, information, windows)
    if best is None:
        raise ValueError(
            f"budget {budget.epsilon}: holds no report of epsilon {GRID[0]}, the smallest that is "
            f"planned; give {GRID[0]} or more"
        )
    return best


def _limit(budget: PersonBudget) -> Fraction:
    if budget.epsilon is None:
        raise ValueError("budget none: a plan spends a limit, as 20")
    if budget.delta < LEAST_DELTA:
        raise ValueError(
            f"delta {float(budget.delta):g}: give {float(LEAST_DELTA):g} or more, as 1e-6; a plan "
            "is composed exactly at its delta"
        )
    return budget.epsilon
