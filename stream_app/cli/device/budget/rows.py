"""The figures of `murmurec budget show`: of one user, or the largest of all users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from producers.identities import Identities
from producers.journal import ATTO, NANO, JournalView, PersonBudget, Spent
from producers.person.account import Account
from producers.person.enrolment import ADAPTIVE, SUM
from producers.person.plans import mechanism_of
from producers.person.reports import Used, room, spent
from stream_app.errors import UserError
from stream_app.settings import Settings

EXAMPLES = ("rr:5:1/2", "rr:5:2")  # before the first report has decided the plan


def of_user(view: JournalView, user: str, epoch: int, settings: Settings) -> dict[str, Any]:
    """Return the spending of one user, exact numbers as text."""
    try:
        device = Identities(view.key, signed=settings.signed).pseudonym(user)
    except ValueError as error:
        raise UserError(str(error)) from None
    account = view.book.accounts.get(device)
    accounts = [] if account is None else [account]
    person = None if account is None else _person(account, view, epoch)
    return {"user": user, "device": device.hex(), "person": person, **_sums(accounts)}


def _person(account: Account, view: JournalView, epoch: int) -> dict[str, Any] | None:
    """Return the terms of an account, what the whole person has spent, and the reports left."""
    if account.enrolment is None:
        return None
    budget = account.enrolment.budget
    used = account.used(view.book.after(epoch, budget.window))
    limited = budget.limited
    return {
        "budget": str(budget),
        "epsilon": None if budget.epsilon is None else str(budget.epsilon),
        "delta": str(budget.delta),
        "window": budget.window,
        "plan": budget.plan or None,
        "simulated": account.enrolment.simulated,
        "withdrawn": account.enrolment.withdrawn or None,
        "spent": _exact(spent(used, budget), NANO) if limited else None,
        "left": dict(_left(budget, used)) if limited else None,
    }


def _left(budget: PersonBudget, used: Mapping[str, Used]) -> Iterator[tuple[str, int]]:
    """Yield how many reports are left under the plan; before the first report, of two examples."""
    ids = [part.partition("*")[0] for part in budget.plan.split(",")]
    if budget.plan in ("", ADAPTIVE, SUM):
        ids = [id for id in used if id] or [*EXAMPLES]
    for id in ids:
        try:
            left = room(budget, used, mechanism_of(id))
        except ValueError:  # a mechanism of a later murmurec
            continue
        yield id, left or 0


def of_all_users(view: JournalView) -> dict[str, Any]:
    """Return the largest spending of a user for each kind, and the number of users.

    The epsilons of different users protect different people and are not added.
    """
    accounts = list(view.book.accounts.values())
    found = _sums(accounts)
    for row in found["spent"]:
        key = row["scope"], row["adjacency"]
        reports = [account.spent()[key].reports for account in accounts if key in account.spent()]
        row.update(users=len(reports), reports_of_all=sum(reports))
    terms = [account.enrolment for account in accounts if account.enrolment is not None]
    return {
        "users": len(accounts),
        "enrolled": sum(not each.withdrawn for each in terms),
        "withdrawn": sum(each.withdrawn > 0 for each in terms),
        "simulated": sum(each.simulated for each in terms),
        **found,
    }


def _sums(accounts: list[Account]) -> dict[str, Any]:
    """Return the largest spendings of these accounts, for life."""
    most: dict[tuple[str, str], Spent] = {}
    for account in accounts:
        for key, life in account.spent().items():
            known = most.get(key)
            # Without a claim every epsilon is 0, so the number of reports decides.
            if known is None or (life.nano, life.reports) > (known.nano, known.reports):
                most[key] = life
    total = max((account.total()[0] for account in accounts), default=0)
    worst = max((account.worst_rating for account in accounts), default=0)
    return {
        "spent": [_spend(scope, spent) for (scope, _), spent in sorted(most.items())],
        "epsilon_in_sum": _exact(total, NANO),
        "epsilon_on_one_rating": _exact(worst, NANO),
        "reports_on_one_item": max((a.reports_on_one_rating for a in accounts), default=0),
    }


def _spend(scope: str, life: Spent) -> dict[str, Any]:
    claimed = life.adjacency != "nothing"
    return {
        "scope": scope,
        "adjacency": life.adjacency,
        "epsilon": _exact(life.nano, NANO) if claimed else None,
        "delta": _exact(life.atto, ATTO) if claimed else None,
        "reports": life.reports,
        "reports_again": life.again,
    }


def _exact(amount: int, unit: int) -> str:
    """Return amount / unit as the shortest decimal."""
    whole, rest = divmod(amount, unit)
    digits = str(unit + rest)[1:].rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)
