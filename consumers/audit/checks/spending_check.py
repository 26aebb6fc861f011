"""What an account has spent: its releases, counted and composed exactly, against the budget.

    spent(n_1, n_2, ...)   epsilon at `delta` of n_k releases of mechanism k for a whole person, by
                           the loss distributions of the integer tables that are sampled

over the `WINDOW` epochs in which the epsilons have the greatest sum. No valid accounting of a
person admits more than the composition of exactly what came, so more than the budget is overspent.
Unlike what an attack gains, the number is a worst case over all histories: it finds an account that
reports too often also where its reports say little.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from consumers.audit.configuration import PublicConfiguration
from consumers.audit.findings import Finding, decided, untestable
from consumers.audit.observed import Observed
from stream_app.privacy.accounting.budget_plans import ExactPlan
from stream_app.privacy.privacy_map import Adjacency
from stream_app.privacy.profiles.profile_mechanism import MOST_ITEMS

WINDOW = 365  # epochs in which a budget holds
MOST_COUNTS = 256  # different counts that are composed, those with the greatest sums

Table = NDArray[np.int64]


def spending(observed: Observed, configuration: PublicConfiguration) -> Iterator[Finding]:
    """Yield the finding about what accounts released."""
    claim = f"no account releases more than the budget of {configuration.budget:g} admits"
    epsilons = _epsilons(observed, configuration)
    names, weights = list(epsilons), np.array(list(epsilons.values()))
    released = _released(observed, configuration, names)
    if not len(released):
        yield untestable(claim, "nothing was released under a mechanism that claims something")
        return
    counts = _busiest_windows(released, weights)
    rows, accounts = np.unique(counts, axis=0, return_counts=True)
    sums, most = rows @ weights, configuration.budget * (1 + 1e-6)
    plan, spent, over = ExactPlan((), Fraction(str(configuration.delta)), MOST_ITEMS), 0.0, 0
    for row in np.argsort(-sums, kind="stable")[:MOST_COUNTS].tolist():
        used = {name: int(n) for name, n in zip(names, rows[row], strict=True) if n}
        found = plan.spent(used)
        spent, over = max(spent, found), over + int(accounts[row]) * (found > most)
    measured = (
        f"{over:,} of {len(counts):,} accounts above; {spent:.1f} at most in {WINDOW} days at "
        f"delta {configuration.delta:g}"
    )
    yield decided(claim, over, measured, spent=spent)


def _epsilons(observed: Observed, configuration: PublicConfiguration) -> dict[str, float]:
    """Return the epsilon of one release under each mechanism that claims something."""
    found = [
        (each.id, each.epsilon)
        for each in configuration.mechanisms
        if each.adjacency is not Adjacency.NOTHING
    ]
    found += [(name, made.epsilon) for name, made in observed.mechanisms.items()]
    return {name: float(epsilon) for name, epsilon in found if epsilon is not None}


def _released(observed: Observed, configuration: PublicConfiguration, names: list[str]) -> Table:
    """Return (account, epoch, mechanism, count) of what was released, (n, 4), by account and
    epoch; a mechanism is its place in `names`."""
    messages, place = observed.messages, {name: column for column, name in enumerate(names)}
    column = np.array([place.get(each.id, -1) for each in configuration.mechanisms], np.int64)
    which = column[messages.mechanism]
    reports = np.stack([messages.device, messages.epoch, which, messages.count], axis=1)
    accounts = {device: row for row, device in enumerate(messages.devices)}
    profiles = [
        (accounts.setdefault(each.device, len(accounts)), each.epoch, place[each.mechanism], 1)
        for each in observed.profiles
        if each.mechanism in place
    ]
    found = np.concatenate((reports[which >= 0], np.array(profiles, np.int64).reshape(-1, 4)))
    return np.asarray(found[np.lexsort((found[:, 1], found[:, 0]))], np.int64)


def _busiest_windows(released: Table, weights: NDArray[np.float64]) -> Table:
    """Return the counts by mechanism in the busiest window of each account, (accounts, k)."""
    starts = np.flatnonzero(np.diff(released[:, 0], prepend=-1))
    found = np.zeros((len(starts), len(weights)), np.int64)
    for row, own in enumerate(np.split(released, starts[1:])):
        epochs = own[:, 1]
        if epochs[-1] - epochs[0] >= WINDOW:
            sums = np.concatenate((np.zeros(1), np.cumsum(own[:, 3] * weights[own[:, 2]])))
            ends = np.searchsorted(epochs, epochs + WINDOW)
            first = int(np.argmax(sums[ends] - sums[:-1]))
            own = own[first : ends[first]]
        np.add.at(found[row], own[:, 2], own[:, 3])
    return found
