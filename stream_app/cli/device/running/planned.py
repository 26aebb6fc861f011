"""The mechanism of `murmurec device run --plan`: the one that the accounts were enrolled for."""

from __future__ import annotations

from producers.journal import Journal
from producers.person.enrolment import ADAPTIVE, SUM
from stream_app.errors import UserError
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism


def planned_mechanism(journal: Journal) -> Mechanism:
    """Return the mechanism of every account's plan; UserError unless it is one, of ratings."""
    plans = sorted({account.budget.plan for account in journal.enrolled()})
    ids = {part.partition("*")[0] for plan in plans for part in plan.split(",")}
    if not plans:
        raise UserError(
            f"device journal {journal.path}: no account takes part, so there is no plan; run "
            "murmurec device enrol --user ID --plan PLAN"
        )
    if len(ids) > 1 or ids & {"", ADAPTIVE, SUM}:
        found = ", ".join(plan or "none" for plan in plans)
        raise UserError(
            f"the plans of the accounts are {found[:200]}, and --plan needs one mechanism: leave "
            "--plan out and give --mechanism and --epsilon"
        )
    try:
        return registry.parse(ids.pop())
    except ValueError as error:
        raise UserError(f"--plan: {error}") from None
