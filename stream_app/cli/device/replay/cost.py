"""The largest spending of one run of `murmurec replay`, known before any noise is drawn.

    reports of a user  = cells not yet reported, as many as the budget allows
    whole of a user    = spent before + reports * epsilon

The most reports, the largest spending before and the largest spending after may belong to three
users; the epsilons of different users are not added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from producers.fleet.population import Population, runs
from producers.journal import NANO, Journal, PersonBudget
from stream_app.errors import UserError
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.ratings.item_sampling import ItemSample


@dataclass(frozen=True)
class Cost:
    """The largest number of reports of one user in this run, the largest spend before it and after
    it; `cells` is the size of a scope that no device has the budget for, else 0."""

    most: int
    before: Fraction
    whole: Fraction
    cells: int
    epsilon: Fraction | None

    def check(self, budget: PersonBudget) -> None:
        """Refuse a budget under which no device can report."""
        if not self.cells or self.epsilon is None or budget.epsilon is None:
            return
        raise UserError(
            f"--budget {float(budget.epsilon):g} is too small for the whole scope: "
            f"{self.cells} items at {self.epsilon} each; give a larger --budget, or --sample "
            f"{float(budget.epsilon):g} to report on a few of its items"
        )


def cost(
    population: Population,
    journal: Journal,
    mechanism: Mechanism,
    epoch: int,
    scope: NDArray[np.uint64] | None,
    sample: ItemSample | None,
    *,
    republish: bool,
    ended: bool,
) -> Cost:
    """Return the largest spending of a run."""
    all_or_nothing = ended and sample is None
    most, before, whole, cells = 0, Fraction(0), Fraction(0), 0
    for device, keys in _cells(population, scope):
        left = len(keys) if republish else int(np.count_nonzero(journal.unreported(device, keys)))
        if sample is not None:
            left = min(left, sample.reports)
        cells = max(cells, left)
        room = journal.room(device, mechanism, epoch)
        if room is not None and room < left:
            left = 0 if all_or_nothing else room
        nano = sum(s.nano for kind, s in journal.spent(device).items() if kind != "nothing")
        earlier = Fraction(nano, NANO)
        most, before = max(most, left), max(before, earlier)
        whole = max(whole, earlier + left * (mechanism.epsilon or 0))
    unaffordable = scope is not None and all_or_nothing and not most
    return Cost(most, before, whole, cells if unaffordable else 0, mechanism.epsilon)


def _cells(
    population: Population, scope: NDArray[np.uint64] | None
) -> Iterator[tuple[bytes, NDArray[np.uint64]]]:
    """Yield every device with the keys of the items that it may report on."""
    if scope is not None:
        yield from ((device, scope) for device in population.devices)
        return
    rows = np.flatnonzero(population.fresh)
    rows = rows[np.argsort(population.users[rows], kind="stable")]
    owners, heads = runs(population.users[rows])
    parts = np.split(population.items[rows], heads[1:])
    for owner, keys in zip(owners.tolist(), parts, strict=True):
        yield population.devices[owner], keys
