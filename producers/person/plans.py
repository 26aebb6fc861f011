"""The mechanisms of a plan and of the ledger, from their ids: of ratings and of profiles."""

from __future__ import annotations

from functools import lru_cache

from producers.person.enrolment import ADAPTIVE
from producers.person.reports import Costing
from stream_app.privacy import registry
from stream_app.privacy.profiles import registry as profiles


@lru_cache(maxsize=1024)
def mechanism_of(id: str) -> Costing:
    """Return the mechanism of an id; ValueError for an id that neither registry knows."""
    if id.partition(":")[0] in registry.families():
        return registry.parse(id)
    return profiles.parse(id)


def checked_plan(plan: str) -> str:
    """Return the plan of an account; ValueError unless it is "", "adaptive" or a mechanism's id
    that protects something."""
    if plan not in ("", ADAPTIVE) and mechanism_of(plan).epsilon is None:
        raise ValueError(f"plan {plan}: protects nothing, and no budget holds it")
    return plan
