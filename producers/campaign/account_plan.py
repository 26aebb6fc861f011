"""What the budget of a person is planned for where a campaign is its first release.

A budget without a plan is planned for the mechanism of its first release, which is then composed
exactly, and no other may follow. Campaigns differ in their stages, and reports come beside them: so
a budget that holds the campaign under a Renyi filter is planned for several mechanisms
(`adaptive`), which costs about a tenth of the campaigns that it holds (170 instead of 186 of
epsilon 1 in a budget of 20 at delta 1e-6). One that holds it exactly and not so is planned for this
campaign alone. It depends on the plan and the budget, and on no rating.
"""

from __future__ import annotations

from dataclasses import replace

from producers.journal import Journal
from producers.person.enrolment import ADAPTIVE
from producers.person.reports import Costing, room


def decide(journal: Journal, device: bytes, mechanism: Costing) -> None:
    """Plan the budget of an account that has no plan and has released nothing, durably."""
    account = journal.enrolment(device)
    if account is None or account.withdrawn or account.budget.plan or not account.budget.limited:
        return
    if journal.spent(device):
        return
    if room(replace(account.budget, plan=ADAPTIVE), {}, mechanism):
        journal.set_plan([device], ADAPTIVE)
