"""How to spend a person's budget: how many ratings to report, and with how much epsilon each.

    maximise   min(reports that the budget admits, ratings expected) x phi(epsilon)

over a fixed grid of epsilons, where phi is the share of a rating's information that a report
carries (`information_fraction.py`). The budget holds in any `window` days; over a longer horizon
each window has a budget of its own, and its share of the ratings. Among equals the smaller epsilon
is taken. All of it is public: budget, grid and number of ratings expected, and no rating.

The same with reports counted by basic composition (epsilons added, delta 0) is what exact
composition is compared with.

The error to expect of predictions learned from reports is that of a table. `make bench
ARGS=budget_plans` measures it on MovieLens-1M (6,040 people, 1 .. 5 stars): each person has the
same budget, of 5 to 320, and reports by the plan; a dense learner of 8 factors learns all reports
in one pass; the mean of three random splits, which differ by .008 at few reports and by .002 at
many. It depends on the information that a person reports, in clean ratings, and within .007 not on
how many reports carry it: 24 plans from .6 to 49 clean ratings a person lie on one curve. More
people lower it, and other ratings have another one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import log

from producers.person.enrolment import PersonBudget
from producers.person.plans import checked_plan
from stream_app.privacy import registry
from stream_app.privacy.accounting.budget_plans import LEAST_DELTA, fits, largest_count
from stream_app.privacy.ratings.information_fraction import information_fraction

GRID = tuple(Fraction(n, 4) for n in (1, 2, 4, 6, 8, 10, 12, 16, 20, 24))
MOST_RATINGS = 10**6
LEVELS = 5
SOURCE = "measured on MovieLens-1M, 6,040 people with this budget, 1 to 5 stars"
_MEASURED = (  # information of a person, RMSE, RMSE with the device's own ratings folded in
    (1.088, 1.0637, 0.9936),  # 2 reports of 5/2: a budget of 5
    (2.175, 1.0338, 0.9751),  # 4 of 5/2: 10
    (4.106, 1.0024, 0.9577),  # 5 of 4: 20
    (8.213, 0.9731, 0.9413),  # 10 of 4: 40
    (16.262, 0.9473, 0.9273),  # 20 of 4: 80; from here on some people have fewer ratings
    (29.549, 0.9308, 0.9182),  # 40 of 4: 160
    (48.675, 0.9182, 0.9065),  # 80 of 4: 320
)


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
        if fits(((id, most),), limit, budget.delta):
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


def expected_error(information: float) -> tuple[float, float] | None:
    """Return the RMSE in stars after `information` clean ratings a person, without and with fold-in
    on the device: linear in ln information between measured points, None outside of them.
    """
    if not _MEASURED[0][0] <= information <= _MEASURED[-1][0]:
        return None
    for (low, *before), (high, *after) in pairwise(_MEASURED):
        if information <= high:
            share = log(information / low) / log(high / low)
            alone, folded = (a + share * (b - a) for a, b in zip(before, after, strict=True))
            return alone, folded
    return None
