"""Changes of accounts: enrolling, withdrawing, raising a budget, choosing a plan.

Each returns the accounts that change, as they are afterwards, for one durable record; it refuses
all of them where one is refused. `known` returns the terms of a device, None where it has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from producers.person.enrolment import ADAPTIVE, SUM, Enrolment, PersonBudget
from stream_app.errors import UserError
from stream_app.privacy.accounting.budget_plans import LARGEST_EPSILON, LEAST_DELTA

Known = Callable[[bytes], Enrolment | None]


def enrolling(
    known: Known, devices: Sequence[bytes], budget: PersonBudget, epoch: int, *, simulated: bool
) -> list[Enrolment]:
    """Return the accounts of devices that are new, or were withdrawn; UserError for other terms."""
    changed = []
    for device in dict.fromkeys(devices):
        before = known(device)
        if before is None:
            _check_plan(budget)
            changed.append(Enrolment(device, epoch, budget, simulated))
        elif (again := before.enrolled_again(budget, epoch, simulated=simulated)) is not before:
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


def planning(
    known: Known, released: Callable[[bytes], bool], devices: Sequence[bytes], plan: str
) -> list[Enrolment]:
    """Return the accounts with this plan; UserError for a device that has released under another.

    Exact composition holds for a plan that was made in advance.
    """
    found = [each for each in _found(known, devices) if each.budget.plan != plan]
    for each in found:
        if released(each.device):
            raise UserError(
                f"device {each.device.hex()} has released under the plan {each.budget.plan}: a "
                "plan is chosen before the first release, because its exact cost holds for this "
                "plan alone"
            )
    changed = [replace(each, budget=replace(each.budget, plan=plan)) for each in found]
    for each in changed:
        _check_plan(each.budget)
    return changed


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
