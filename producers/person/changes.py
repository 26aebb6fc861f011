"""Changes of accounts: enrolling, withdrawing, raising a budget, choosing or changing a plan.

Each returns the accounts that change, as they are afterwards, for one durable record; it refuses
all of them where one is refused. `known` returns the terms of a device, None where it has none, and
`used` what it has released within the window of its budget.

A plan is changed from now on. While nothing of the window was released, any plan follows. After a
release an exact plan gives way to "adaptive" or "sum" alone, filters that are valid however the
next mechanism is chosen and that count everything released under the plan before. The moment of
the change may depend on what was released, too. Let E be any set of outcomes; those of E without a
change satisfy (epsilon, delta_1), delta_1 the exact delta of the whole earlier plan, and those with
a change (epsilon, delta_2), by the filter. So E satisfies (epsilon, delta_1 + delta_2): the filter
gets the delta that the earlier plan has left, and delta_1 stays `held`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from producers.person.enrolment import ADAPTIVE, SUM, Enrolment, Pace, PersonBudget
from producers.person.reports import Used, held
from stream_app.errors import UserError
from stream_app.privacy.accounting.budget_plans import LARGEST_EPSILON, LEAST_DELTA

Known = Callable[[bytes], Enrolment | None]
UsedBy = Callable[[Enrolment], Mapping[str, Used]]


def enrolling(
    known: Known,
    used: UsedBy,
    devices: Sequence[bytes],
    budget: PersonBudget,
    epoch: int,
    *,
    simulated: bool,
) -> list[Enrolment]:
    """Return the accounts of devices that are new, were withdrawn, or get another plan; UserError
    for other terms."""
    changed = []
    for device in dict.fromkeys(devices):
        before = known(device)
        if before is None:
            _check_plan(budget)
            changed.append(Enrolment(device, epoch, budget, simulated))
            continue
        again = before.enrolled_again(budget, epoch, simulated=simulated)
        if budget.plan:
            again = _planned(again, used(before), budget.plan)
        if again is not before:
            changed.append(again)
    return changed


def withdrawing(known: Known, devices: Sequence[bytes], epoch: int) -> list[Enrolment]:
    """Return the accounts that take part no more; those withdrawn before are left out."""
    if epoch < 1:
        raise ValueError(f"epoch {epoch}: an account is withdrawn in epoch 1 or later")
    found = _found(known, devices)
    return [replace(each, withdrawn=epoch) for each in found if not each.withdrawn]


def raising(known: Known, devices: Sequence[bytes], epsilon: Fraction | None) -> list[Enrolment]:
    """Return the accounts with a larger epsilon; UserError for one that is not larger."""
    changed = []
    for each in _found(known, devices):
        budget = each.budget.raised(epsilon)
        _check_plan(budget)
        changed.append(replace(each, budget=budget))
    return changed


def pacing(known: Known, devices: Sequence[bytes], pace: Pace) -> list[Enrolment]:
    """Return the accounts with this pace of campaigns."""
    found = [each for each in _found(known, devices) if each.budget.pace != pace]
    return [replace(each, budget=replace(each.budget, pace=pace)) for each in found]


def planning(known: Known, used: UsedBy, devices: Sequence[bytes], plan: str) -> list[Enrolment]:
    """Return the accounts with this plan, from now on; UserError for one that cannot change to it
    after what it has released."""
    changed = [(each, _planned(each, used(each), plan)) for each in _found(known, devices)]
    return [after for before, after in changed if after is not before]


def _planned(account: Enrolment, used: Mapping[str, Used], plan: str) -> Enrolment:
    before, after = account.budget, replace(account.budget, plan=plan, held=Fraction(0))
    released = before.limited and any(id and amount.reports for id, amount in used.items())
    if before == after or (released and before.plan == plan):
        return account
    if released:
        if before.plan in (ADAPTIVE, SUM) or plan not in (ADAPTIVE, SUM):
            raise UserError(
                f"device {account.device.hex()} has released under the plan {before.plan}, and "
                f"{plan[:80]} would be exact only if it had been made before: {_instead(before)}"
            )
        after = replace(after, held=held(before, used))
    _check_plan(after)
    return replace(account, budget=after)


def _instead(budget: PersonBudget) -> str:
    span = "" if budget.window is None else f", or wait {budget.window} days without a release"
    if budget.plan in (ADAPTIVE, SUM):
        return f"keep {budget.plan}, which takes every mechanism{span}"
    return f"change to {ADAPTIVE}, which takes every mechanism from now on{span}"


def _check_plan(budget: PersonBudget) -> None:
    """Refuse a budget that its plan, which is composed exactly, can hold no report of."""
    composed = budget.delta >= LEAST_DELTA and (budget.plan == ADAPTIVE or "*" in budget.plan)
    if composed and budget.epsilon is not None and budget.epsilon > LARGEST_EPSILON:
        raise UserError(
            f"budget {float(budget.epsilon):.16g}: the plan {budget.plan} is composed up to an "
            f"epsilon of {LARGEST_EPSILON} and would hold no report above it: give "
            f"{LARGEST_EPSILON} at most, or enrol with --plan {SUM}"
        )


def _found(known: Known, devices: Sequence[bytes]) -> list[Enrolment]:
    found = []
    for device in dict.fromkeys(devices):
        each = known(device)
        if each is None:
            raise UserError(f"device {device.hex()} is not enrolled: run murmurec device enrol")
        found.append(each)
    return found
