"""How much of a person's budget campaigns may spend, and how fast.

    share   of the budget, within its window                          3/4
    part    of that share, in any 30 epochs (days) in a row           1/12

Reports are released by the person's own commands and settings: they have no pace, and
what campaigns leave of the budget. Campaigns are announced by whoever writes the log of rounds, who
can at worst spend the pace. One campaign always fits a pace that has nothing spent, however small
the budget is: what one may cost is the person's consent (`producers.campaign.terms`). By default a
budget of (20, 1e-6) holds two debits of epsilon 2 in 30 days, so that a campaign may pass midnight.

A debit uses 1/n of the budget where the whole budget holds n of its campaign, by the accounting of
the plan (`reports.room`), in which debits add up. So shares are of the budget, not of epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from producers.person.enrolment import PersonBudget
from producers.person.plans import mechanism_of
from producers.person.reports import Costing, room

DAYS = 30
Debits = Sequence[tuple[int, str, int]]
"""Of campaigns, oldest first: epoch, mechanism id, how many."""


@dataclass(frozen=True)
class Paced:
    """How many more campaigns of one kind fit, and from which epoch on one more does; None: not
    before the budget is raised or its pace changed."""

    left: int
    next: int | None


def paced(
    budget: PersonBudget, debits: Debits, mechanism: Costing, epoch: int, plan: str = ""
) -> Paced:
    """Return what share and pace hold in an epoch beside these debits, for a budget with a limit
    that holds the mechanism."""
    found = _left(budget, debits, mechanism, epoch, plan)
    spans = [DAYS] if budget.window is None else [DAYS, budget.window]
    moments = sorted({day + span for day, *_ in debits for span in spans if day + span > epoch})
    coming = (each for each in moments if _left(budget, debits, mechanism, each, plan))
    return Paced(found, epoch if found else next(coming, None))


def _left(budget: PersonBudget, debits: Debits, mechanism: Costing, epoch: int, plan: str) -> int:
    each = _part(budget, mechanism, plan)
    share = max(budget.pace.share, each)
    month = max(budget.pace.share * budget.pace.part, each)
    parts = {id: _part(budget, mechanism_of(id), plan) for id in {id for _, id, _ in debits}}
    for day, id, count in debits:
        cost = count * parts[id]
        share -= cost if budget.window is None or day > epoch - budget.window else 0
        month -= cost if day > epoch - DAYS else 0
    return max(0, math.floor(min(share, month) / each))


def _part(budget: PersonBudget, mechanism: Costing, plan: str) -> Fraction:
    """Return the part of the whole budget that a debit uses; all where it holds none."""
    return Fraction(1, room(budget, {}, mechanism, plan) or 1)
