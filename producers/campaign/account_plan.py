"""What the budget of a person is planned for where a campaign is its first release.

A budget without a plan is planned for the mechanism of its first release, which is then composed
exactly, and no other may follow. Campaigns differ in their stages, and reports come beside them: so
a budget that holds the campaign under a Renyi filter is planned for several mechanisms
(`adaptive`), which costs about a tenth of the campaigns that it holds (170 instead of 186 of
epsilon 1 in a budget of 20 at delta 1e-6). One that holds it exactly and not so is planned for this
campaign alone. It depends on the plan and the budget, and on no rating.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from producers.journal import Journal
from producers.person.enrolment import ADAPTIVE
from producers.person.reports import Costing, room


def decide(journal: Journal, devices: Sequence[bytes], mechanism: Costing) -> None:
    """Plan the budgets of those accounts that have no plan and have released nothing, durably."""
    found = [each for each in devices if _is_undecided(journal, each, mechanism)]
    if found:
        journal.set_plan(found, ADAPTIVE)


def _is_undecided(journal: Journal, device: bytes, mechanism: Costing) -> bool:
    account = journal.enrolment(device)
    if account is None or account.withdrawn or account.budget.plan or not account.budget.limited:
        return False
    if journal.spent(device):
        return False
    return bool(room(replace(account.budget, plan=ADAPTIVE), {}, mechanism))
