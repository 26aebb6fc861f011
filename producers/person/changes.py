"""Changes of accounts: enrolling, withdrawing, raising a budget, choosing a plan.

Each returns the accounts that change, as they are afterwards, for one durable record; it refuses
all of them where one is refused. `known` returns the terms of a device, None where it has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from producers.person.enrolment import Enrolment, PersonBudget
from stream_app.errors import UserError

Known = Callable[[bytes], Enrolment | None]


def enrolling(
    known: Known, devices: Sequence[bytes], budget: PersonBudget, epoch: int, *, simulated: bool
) -> list[Enrolment]:
    """Return the accounts of devices that are new, or were withdrawn; UserError for other terms."""
    changed = []
    for device in dict.fromkeys(devices):
        before = known(device)
        if before is None:
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
    found = _found(known, devices)
    return [replace(each, budget=each.budget.raised(epsilon)) for each in found]


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
    return [replace(each, budget=replace(each.budget, plan=plan)) for each in found]


def _found(known: Known, devices: Sequence[bytes]) -> list[Enrolment]:
    found = []
    for device in dict.fromkeys(devices):
        each = known(device)
        if each is None:
            raise UserError(f"device {device.hex()} is not enrolled: run murmurec device enrol")
        found.append(each)
    return found
