"""The mechanism that the accounts were enrolled for: of `device run --plan`, or beside another."""

from __future__ import annotations

from producers.journal import Enrolment, Journal
from producers.person.enrolment import ADAPTIVE, SUM
from producers.person.reports import allows
from stream_app.cli.output import notice, plural
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


def planned_for(account: Enrolment, mechanism: Mechanism) -> bool:
    """Return whether an account's budget is for reports of this mechanism, or for any so far."""
    plan = account.budget.plan
    return not plan or allows(plan, mechanism.id)


def check_plans(journal: Journal, mechanism: Mechanism) -> None:
    """Refuse a mechanism that no account's plan has; warn where some plan has another: such an
    account would not report, and its budget would look as if it were spent."""
    accounts = journal.enrolled()
    others = [each for each in accounts if not planned_for(each, mechanism)]
    if not others:
        return
    plans = sorted({account.budget.plan for account in others})
    sentence = (
        f"the budget of {plural(len(others), 'account')} is for {', '.join(plans)[:200]}, and "
        f"holds no report under {mechanism.id}: give --plan, or the --mechanism and --epsilon of "
        "the plan"
    )
    if len(others) == len(accounts):
        raise UserError(sentence)
    notice(f"warning: {plural(len(others), 'account')} will not report: {sentence}")
