"""Two parts of a person's budget: for cells that were never reported, and for later rounds.

    holds   the reports of one mechanism that the whole budget holds
    again   floor(share * holds), for reports on cells that were reported before
    first   holds - again, for all others

A report counts in its part as long as it counts in the budget's window. Both parts together hold
no more than the budget, whose composition does not depend on which cells are reported. So later
rounds never use up what items that come into the scope need for their first report. The parts
follow from budget, mechanism, share and which cells were reported, and from no rating.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from producers.person.enrolment import PersonBudget, shown
from producers.person.reports import Costing, Used, room


def checked_share(share: Fraction) -> Fraction:
    """Return the share of later rounds; ValueError unless it is exact, above 0 and below 1."""
    if not isinstance(share, Fraction) or not 0 < share < 1:
        raise ValueError(
            f"share {shown(share)}: give an exact number above 0 and below 1, as Fraction(1, 2)"
        )
    return share


@dataclass(frozen=True)
class Parts:
    """How many reports of cells that were never reported, and of others (`again`)."""

    first: int
    again: int


def parts(
    budget: PersonBudget, used: Mapping[str, Used], mechanism: Costing, share: Fraction
) -> Parts | None:
    """Return how many reports of a mechanism the parts of a budget hold in all; None without a
    limit. What an older murmurec recorded without a mechanism is not theirs."""
    holds = room(budget, {id: amount for id, amount in used.items() if not id}, mechanism)
    if holds is None:
        return None
    again = int(checked_share(share) * holds)
    return Parts(holds - again, again)


def rooms(
    budget: PersonBudget,
    used: Mapping[str, Used],
    mechanism: Costing,
    share: Fraction,
    plan: str = "",
) -> Parts | None:
    """Return how many more reports fit each part, and the whole budget; None without a limit."""
    left, whole = room(budget, used, mechanism, plan), parts(budget, used, mechanism, share)
    if left is None or whole is None:
        return None
    before = used.get(mechanism.id, Used())
    first = whole.first - (before.reports - before.again)
    again = whole.again - before.again
    return Parts(max(0, min(left, first)), max(0, min(left, again)))
