"""Whether the plans and the budgets of the accounts hold what a running device reports.

Without a share every round of the scope has to fit. With one (`--rounds-share`) the first round has
to fit the part for first reports, and one more the part for later rounds: what does not fit waits
until the budget's window frees it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from producers.journal import Enrolment, Journal
from producers.person.enrolment import ADAPTIVE, SUM
from producers.person.remaining_reports import parts
from producers.person.reports import allows
from stream_app.cli.output import notice, plural, refusing
from stream_app.errors import UserError
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism

Keys = NDArray[np.uint64]
_INSTEAD = "a smaller --epsilon, or a larger budget (murmurec device enrol --raise)"


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
    with refusing(UserError, "--plan: {}".format):
        return registry.parse(ids.pop())


def _is_planned_for(account: Enrolment, mechanism: Mechanism) -> bool:
    """Return whether an account's budget is for reports of this mechanism, or for any so far."""
    plan = account.budget.plan
    return not plan or allows(plan, mechanism.id)


def check_plans(journal: Journal, mechanism: Mechanism) -> None:
    """Refuse a mechanism that no account's plan has; warn where some plan has another: such an
    account would not report, and its budget would look as if it were spent."""
    accounts = journal.enrolled()
    others = [each for each in accounts if not _is_planned_for(each, mechanism)]
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


def check_budgets(journal: Journal, mechanism: Mechanism, items: Keys, epoch: int) -> None:
    """Refuse a scope that fits no account's budget; warn where it does not fit some. An account
    whose plan has another mechanism reports nothing (`check_plans`)."""
    accounts = [each for each in journal.enrolled() if _is_planned_for(each, mechanism)]
    check = _shortage if journal.limits.share is None else _shortage_of_a_part
    found = [check(journal, mechanism, items, epoch, account) for account in accounts]
    short = [each for each in found if each is not None]
    if not short:
        return
    _, sentence = max(short)
    if len(short) == len(accounts):
        raise UserError(sentence)
    notice(f"warning: {plural(len(short), 'account')} will not report: {sentence}")


def _shortage(
    journal: Journal, mechanism: Mechanism, items: Keys, epoch: int, account: Enrolment
) -> tuple[int, str] | None:
    """Return how many reports are left, and the sentence, where they are too few for all rounds."""
    reports = journal.reports(account.device, items)
    needed = int(np.maximum(journal.limits.reports - reports, 0).sum())
    room = journal.room(account.device, mechanism, epoch)
    if room is None or room >= needed:
        return None
    return room, (
        f"the scope needs {plural(needed, 'report')} of each account, and the budget of "
        f"{account.budget} holds {plural(room, 'report')} under {mechanism.id}: give a shorter "
        f"--scope, fewer --rounds, {_INSTEAD}"
    )


def _shortage_of_a_part(
    journal: Journal, mechanism: Mechanism, items: Keys, epoch: int, account: Enrolment
) -> tuple[int, str] | None:
    """Return the same where the first round, or a single later one, does not fit its part."""
    share = journal.limits.share
    assert share is not None
    left = journal.rooms(account.device, mechanism, epoch)
    whole = parts(account.budget, {}, mechanism, share)
    if left is None or whole is None:
        return None
    needed = int(np.count_nonzero(journal.reports(account.device, items) == 0))
    budget = f"the budget of {account.budget} under {mechanism.id}"
    if needed > left.first:
        return left.first, (
            f"the first round of the scope needs {plural(needed, 'report')} of each account, and "
            f"{plural(left.first, 'report')} of {budget} are not kept for later rounds: give a "
            f"shorter --scope, a smaller --rounds-share, {_INSTEAD}"
        )
    if len(items) > whole.again:
        return whole.again, (
            f"a later round of the scope needs {plural(len(items), 'report')} of each account, and "
            f"--rounds-share {share} of {budget} is {plural(whole.again, 'report')}: give a "
            f"shorter --scope, a larger --rounds-share, {_INSTEAD}"
        )
    return None


def rounds_claims(journal: Journal, mechanism: Mechanism) -> Iterator[str]:
    """Yield what later rounds may use, of the account with the smallest part."""
    share, times = journal.limits.share, journal.limits.reports
    if share is None:
        return
    found = [(parts(each.budget, {}, mechanism, share), each) for each in journal.enrolled()]
    known = [(whole.again, whole.first, each.budget) for whole, each in found if whole is not None]
    if known:
        again, first, budget = min(known, key=lambda each: each[:2])
        yield (
            f"rounds     each item up to {times} times; of the {first + again} reports that the "
            f"budget of {budget} holds, {again} are for items reported before"
        )
