"""The mechanisms of a plan and of the ledger, from their ids: of ratings and campaigns."""

from __future__ import annotations

from functools import lru_cache

from producers.person.enrolment import ADAPTIVE, SUM, PersonBudget
from producers.person.reports import Costing
from stream_app.privacy import registry
from stream_app.privacy.accounting.budget_plans import pin
from stream_app.privacy.gaussian import naming
from stream_app.privacy.gaussian.campaign_loss import CampaignCost, is_campaign


@lru_cache(maxsize=1024)
def mechanism_of(id: str) -> Costing:
    """Return the mechanism of an id; ValueError for an id that is none."""
    if is_campaign(id):
        return CampaignCost(naming.name(naming.parse(id)))
    return registry.parse(id)


def checked_plan(plan: str, budget: PersonBudget) -> str:
    """Return the plan of an account with this budget, its counts filled in; ValueError unless it is
    "", "adaptive", "sum", the id of a mechanism that protects something, or ids with counts that
    fit the budget, as rr:5:1/2*60,cell:5:1/4*20."""
    if plan in ("", ADAPTIVE, SUM) or budget.epsilon is None:
        return plan
    if "*" in plan or "," in plan:
        return pin(plan, budget.epsilon, budget.delta)
    if mechanism_of(plan).epsilon is None:
        raise ValueError(f"plan {plan}: protects nothing, and no budget holds it")
    return plan
