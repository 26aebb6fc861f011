"""Enrolling the users of a file as a simulated population, in one step that states the budget."""

from __future__ import annotations

from collections.abc import Sequence

from producers.journal import Journal, PersonBudget
from stream_app.cli.output import plural


def enrolled_population(
    journal: Journal, devices: Sequence[bytes], budget: PersonBudget, today: int
) -> str:
    """Enrol the devices of a population that are not enrolled; return the sentence that says so.

    The account of a person keeps its budget, whatever this command states. A simulated account with
    a smaller budget is raised to the stated one.
    """
    known = {device: journal.enrolment(device) for device in devices}
    new = [device for device, terms in known.items() if terms is None]
    own = sum(terms is not None and not terms.simulated for terms in known.values())
    smaller = [
        device
        for device, terms in known.items()
        if terms is not None and terms.simulated and _is_smaller(terms.budget, budget)
    ]
    # One less than today: an account reports from the first epoch after it enrolled, and a
    # simulation reports at once.
    journal.enrol(new, budget, max(0, journal.epoch(today) - 1), simulated=True)
    journal.raise_budget(smaller, budget.epsilon)
    stated = "without a limit" if not budget.limited else f"with a budget of {budget} each"
    parts = [f"enrolled   {plural(len(new), 'device')} as a simulation, {stated}"]
    if smaller:
        parts.append(f"{plural(len(smaller), 'device')} raised to it")
    if rest := len(known) - len(new) - len(smaller) - own:
        parts.append(f"{plural(rest, 'device')} enrolled before")
    if own:
        parts.append(f"{plural(own, 'account')} of a person, which keeps its own budget")
    return "; ".join(parts)


def _is_smaller(budget: PersonBudget, stated: PersonBudget) -> bool:
    return stated.nano is not None and budget.nano is not None and budget.nano < stated.nano
