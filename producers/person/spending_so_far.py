"""What a person has spent so far if it ended now, by purpose, against two other worlds.

    purpose    reports or campaigns, by the mechanism; "all" is everything together
    zeros      against a person without any of it: nothing at all where presence is protected, every
               value replaced where it is public, vectors of zeros for a campaign's
    replaced   against any other record of the person

Each number is an odometer (`stream_app.privacy.accounting.odometer`) at the budget's delta: it
holds at every moment to stop, under any adaptive choice. The numbers of two purposes do not add up
to that of both. A plan that was made beforehand is exact and may promise less; the budget holds
what was promised. Reports without a mechanism on record, and of an unknown one, are added as sums,
and twice where a record is replaced: by way of none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from producers.person.enrolment import ATTO, NANO, PersonBudget
from producers.person.reports import Used, is_known
from stream_app.privacy.accounting.budget_plans import LEAST_DELTA
from stream_app.privacy.accounting.odometer import odometer
from stream_app.privacy.accounting.whole_person import Neighbours
from stream_app.privacy.gaussian.campaign_loss import is_campaign

ALL = "all"


@dataclass(frozen=True)
class Spending:
    """Epsilons, rounded up to billionths; inf where nothing is protected."""

    zeros: float
    replaced: float


def purpose(id: str) -> str:
    """Return what a mechanism is for; reports where it is not on record."""
    return "campaigns" if is_campaign(id) else "reports"


def spending(used: Mapping[str, Used], budget: PersonBudget) -> dict[str, Spending]:
    """Return what these reports cost the person at the budget's delta: all, and each purpose."""
    parts: dict[str, dict[str, Used]] = {ALL: dict(used)}
    for id, amount in used.items():
        if amount.reports:
            parts.setdefault(purpose(id), {})[id] = amount
    return {name: _spending(each, budget) for name, each in parts.items()}


def _spending(used: Mapping[str, Used], budget: PersonBudget) -> Spending:
    known = {id: amount.reports for id, amount in used.items() if id and is_known(id)}
    others = [amount for id, amount in used.items() if id not in known]
    nano, atto = sum(each.nano for each in others), sum(each.atto for each in others)

    def shown(neighbours: Neighbours, times: int) -> float:
        delta = Fraction(budget.atto - times * atto, ATTO)
        if delta < 0:
            return math.inf
        found = odometer(known, delta if delta >= LEAST_DELTA else Fraction(0), neighbours)
        return found if math.isinf(found) else math.ceil(found * NANO + times * nano) / NANO

    return Spending(shown("person", 1), shown("replaced", 2))
