"""The figures of `murmurec device status`: of a journal and all its users, or of one user."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from producers.daemon.schedule import Schedule
from producers.identities import Identities
from producers.journal import ATTO, NANO, Enrolment, JournalView, PersonBudget, Spent
from producers.journal.disk import Disk
from producers.person.account import Account
from producers.person.enrolment import ADAPTIVE, SUM
from producers.person.pace import paced
from producers.person.plans import mechanism_of
from producers.person.reports import Used, room
from producers.person.spending_so_far import ALL, spending
from producers.ranking.clean_history import CleanHistory
from stream_app.cli.output import refusing
from stream_app.errors import UserError
from stream_app.privacy.gaussian.campaign_loss import is_campaign
from stream_app.settings import Settings
from stream_app.wire import EPOCH_SECONDS

EXAMPLES = ("rr:5:1/2", "rr:5:2")  # before the first report has decided the plan


def of_user(view: JournalView, user: str, epoch: int, settings: Settings) -> dict[str, Any]:
    """Return the spending of one user, exact numbers as text."""
    with refusing(UserError):
        device = Identities(view.key, signed=settings.signed).pseudonym(user)
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
        **terms(account.enrolment),
        **(_so_far(used, budget) if limited else {"spent": None}),
        "left": dict(_left(account, budget, view.book.after(epoch, budget.window), epoch))
        if limited
        else None,
    }


def _so_far(used: Mapping[str, Used], budget: PersonBudget) -> dict[str, Any]:
    """Return the epsilons of what was spent if it ended now, as text; "inf" without protection."""
    found = {
        name: {"spent": _decimal(each.zeros), "spent_against_another": _decimal(each.replaced)}
        for name, each in spending(used, budget).items()
    }
    return {**found.pop(ALL), "purposes": found}


def _decimal(epsilon: float) -> str:
    return "inf" if math.isinf(epsilon) else _exact(round(epsilon * NANO), NANO)


def terms(enrolment: Enrolment) -> dict[str, Any]:
    """Return the terms of an account, exact numbers as text."""
    budget = enrolment.budget
    return {
        "epsilon": None if budget.epsilon is None else str(budget.epsilon),
        "delta": str(budget.delta),
        "window": budget.window,
        "plan": budget.plan or None,
        "pace": str(budget.pace),
        "simulated": enrolment.simulated,
        "withdrawn": enrolment.withdrawn or None,
    }


def _left(
    account: Account, budget: PersonBudget, after: int, epoch: int
) -> Iterator[tuple[str, int]]:
    """Yield how many reports are left under the plan, campaigns within their pace; before the first
    report, of two examples. What counts was released in the epochs above `after`."""
    used = account.used(after)
    ids = [part.partition("*")[0] for part in budget.plan.split(",")]
    if budget.plan in ("", ADAPTIVE, SUM):
        ids = [id for id in used if id] or [*EXAMPLES]
    for id in ids:
        try:
            mechanism = mechanism_of(id)
            left = room(budget, used, mechanism)
            if left and is_campaign(id):
                held = paced(budget, account.campaigns(after), mechanism, epoch)
                left = min(left, held.left)
        except ValueError:  # a mechanism of a later murmurec
            continue
        yield id, left or 0


def of_all_users(view: JournalView, path: Path) -> dict[str, Any]:
    """Return the accounts of a journal, and the largest spending of a user for each kind.

    The epsilons of different users protect different people and are not added.
    """
    accounts = list(view.book.accounts.values())
    found = _sums(accounts)
    for row in found["spent"]:
        key = row["scope"], row["adjacency"]
        reports = [account.spent()[key].reports for account in accounts if key in account.spent()]
        row.update(users=len(reports), reports_of_all=sum(reports))
    enrolled = view.book.enrolments()
    kept = Counter(row.device for row in CleanHistory(path).read())
    now = time.time()
    return {
        "journal": str(path),
        "running": _in_use(path),
        "scope": view.book.scope.hex() or None,
        "ratings_kept": sum(kept.values()),
        "users": len(accounts),
        "enrolled": sum(not each.withdrawn for each in enrolled),
        "withdrawn": sum(each.withdrawn > 0 for each in enrolled),
        "simulated": sum(each.simulated for each in enrolled),
        "accounts": [_account(each, kept[each.device.hex()], now) for each in enrolled],
        **found,
    }


def _account(enrolment: Enrolment, kept: int, now: float) -> dict[str, Any]:
    coming = None if enrolment.withdrawn else Schedule([enrolment], EPOCH_SECONDS, now).next
    shown = None if coming is None else datetime.fromtimestamp(coming, UTC)
    return {
        "device": enrolment.device.hex(),
        "enrolled": enrolment.epoch,
        "withdrawn": enrolment.withdrawn or None,
        "ratings_kept": kept,
        "next": None if shown is None else shown.isoformat(timespec="seconds"),
    }


def _in_use(path: Path) -> bool:
    """Return whether a program holds the journal's lock."""
    disk = Disk()
    try:
        disk.close(disk.open(path.expanduser()))
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _sums(accounts: list[Account]) -> dict[str, Any]:
    """Return the largest spendings of these accounts, for life."""
    most: dict[tuple[str, str], Spent] = {}
    for account in accounts:
        for key, life in account.spent().items():
            known = most.get(key)
            # Without a claim every epsilon is 0, so the number of reports decides.
            if known is None or (life.nano, life.reports) > (known.nano, known.reports):
                most[key] = life
    total = max((account.total for account in accounts), default=0)
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
