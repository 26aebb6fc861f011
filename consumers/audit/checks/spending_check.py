"""What an account has spent: its releases, counted and composed exactly, against the budget.

    spent(n_1, n_2, ...)   epsilon at `delta` of n_k releases of mechanism k for a whole person, by
                           the loss distributions of the integer tables that are sampled, and of
                           all stages of campaigns to which the account contributed, as one Gaussian
                           of the sum of their mu^2

over the `WINDOW` epochs in which the releases weigh most. No valid accounting of a person admits
more than the composition of exactly what came, so more than the budget is overspent. Unlike what an
attack gains, the number is a worst case over all histories: it finds an account that reports too
often also where its reports say little.

A contribution counts once its stage is closed, while its record is kept, and on the day of that,
which can come after the debit: windows of an account that contributes are `LATE` epochs shorter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from consumers.audit.configuration import PublicConfiguration
from consumers.audit.findings import Finding, decided, untestable
from consumers.audit.observed import Observed
from stream_app.privacy.accounting.loss_distribution import LossDistribution
from stream_app.privacy.accounting.whole_person import (
    NOTHING_REPORTED,
    Neighbours,
    ReportLoss,
    report_loss,
)
from stream_app.privacy.gaussian.campaign_loss import CampaignLoss
from stream_app.privacy.gaussian.certificate import LARGEST_SQUARE, NoisySum, proved_delta
from stream_app.privacy.privacy_map import Adjacency

WINDOW = 365  # epochs in which a budget holds
LATE = 7  # epochs that a contribution may wait for its broker
MOST_COUNTS = 256  # different counts that are composed, those with the greatest sums

Table = NDArray[np.int64]
Kind = str | NoisySum
"""A mechanism's id, or a stage of a campaign."""


def spending(observed: Observed, configuration: PublicConfiguration) -> Iterator[Finding]:
    """Yield the finding about what accounts released."""
    claim = f"no account releases more than the budget of {configuration.budget:g} admits"
    weighted = _weights(observed, configuration)
    kinds, weights = list(weighted), np.array(list(weighted.values()))
    released = _released(observed, configuration, kinds)
    if not len(released):
        yield untestable(claim, "nothing was released under a mechanism that claims something")
        return
    late = np.array([isinstance(kind, NoisySum) for kind in kinds])
    counts = _busiest_windows(released, weights, late)
    rows, accounts = np.unique(counts, axis=0, return_counts=True)
    delta, spent, over, most = Fraction(str(configuration.delta)), 0.0, 0, Released()
    for row in np.argsort(-(rows @ weights), kind="stable")[:MOST_COUNTS].tolist():
        used = Released.of_counts({k: int(n) for k, n in zip(kinds, rows[row], strict=True) if n})
        found = used.epsilon(delta)
        over += int(accounts[row]) * (not used.within(configuration.budget, delta, found))
        if found > spent:
            spent, most = found, used
    other = most.epsilon(delta, "replaced")
    measured = (
        f"{over:,} of {len(counts):,} accounts above; {spent:.1f} at most in {WINDOW} days at "
        f"delta {configuration.delta:g} against zeros, and {other:.1f} against another record"
    )
    if most.size:
        alone = replace(most, square=Fraction(0), size=0).epsilon(delta)
        measured += f"; {alone:.1f} without its campaigns"
    yield decided(claim, over, measured, spent=spent, replaced=other)


@dataclass(frozen=True)
class Released:
    """What an account released: how often under each id, and mu^2 and coordinates of all stages."""

    counts: tuple[tuple[str, int], ...] = ()
    square: Fraction = Fraction(0)
    size: int = 0

    @classmethod
    def of_counts(cls, used: Mapping[Kind, int]) -> Released:
        """Return the releases of these counts."""
        counts = tuple((kind, n) for kind, n in used.items() if isinstance(kind, str))
        sums = [(kind, n) for kind, n in used.items() if isinstance(kind, NoisySum)]
        square = sum((n * each.square for each, n in sums), Fraction(0))
        return cls(counts, square, sum(n * each.size for each, n in sums))

    def epsilon(self, delta: Fraction, neighbours: Neighbours = "person") -> float:
        """Return the epsilon of all together; inf where the noise of campaigns is next to none."""
        if self.square > LARGEST_SQUARE:
            return math.inf
        total = NOTHING_REPORTED
        for id, count in self.counts:
            total = total.compose(report_loss(id, neighbours).self_composed(count))
        if self.size:  # another record moves the vectors by twice the bound
            square = self.square * (4 if neighbours == "replaced" else 1)
            loss = LossDistribution.single(CampaignLoss(square, self.size))
            total = total.compose(ReportLoss(loss, loss))
        return total.epsilon(float(delta))

    def within(self, budget: float, delta: Fraction, epsilon: float) -> bool:
        """Return whether the budget holds what costs `epsilon`: of campaigns alone by their curve,
        without the rounding of a grid, as a device's journal decides."""
        if epsilon <= budget * (1 + 1e-6) or self.counts or math.isinf(epsilon):
            return epsilon <= budget * (1 + 1e-6)
        return proved_delta(self.square, self.size, Fraction(str(budget))) <= delta


def _weights(observed: Observed, configuration: PublicConfiguration) -> dict[Kind, float]:
    """Return about how much one release of each kind that claims something costs: its epsilon, of
    a stage that of its Gaussian by the leading term."""
    found: dict[Kind, Fraction | float | None] = {
        each.id: each.epsilon
        for each in configuration.mechanisms
        if each.adjacency is not Adjacency.NOTHING
    }
    reach = math.sqrt(2 * math.log(1 / configuration.delta))
    for each in dict.fromkeys(one.sum for one in observed.contributed):
        found[each] = each.square / 2 + reach * math.sqrt(each.square)
    return {kind: float(epsilon) for kind, epsilon in found.items() if epsilon is not None}


def _released(observed: Observed, configuration: PublicConfiguration, kinds: list[Kind]) -> Table:
    """Return (account, epoch, kind, count) of what was released, (n, 4), by account and epoch; a
    kind is its place in `kinds`."""
    messages, place = observed.messages, {kind: column for column, kind in enumerate(kinds)}
    column = np.array([place.get(each.id, -1) for each in configuration.mechanisms], np.int64)
    which = column[messages.mechanism]
    reports = np.stack([messages.device, messages.epoch, which, messages.count], axis=1)
    accounts = {device: row for row, device in enumerate(messages.devices)}
    more = [
        (accounts.setdefault(each.device, len(accounts)), each.epoch, place[each.sum], 1)
        for each in observed.contributed
        if each.sum in place
    ]
    found = np.concatenate((reports[which >= 0], np.array(more, np.int64).reshape(-1, 4)))
    return np.asarray(found[np.lexsort((found[:, 1], found[:, 0]))], np.int64)


def _busiest_windows(
    released: Table, weights: NDArray[np.float64], late: NDArray[np.bool_]
) -> Table:
    """Return the counts by kind in the busiest window of each account, (accounts, k); `late`: whose
    debit may be older than its record."""
    starts = np.flatnonzero(np.diff(released[:, 0], prepend=-1))
    found = np.zeros((len(starts), len(weights)), np.int64)
    for row, own in enumerate(np.split(released, starts[1:])):
        epochs = own[:, 1]
        window = WINDOW - LATE * bool(late[own[:, 2]].any())
        if epochs[-1] - epochs[0] >= window:
            sums = np.concatenate((np.zeros(1), np.cumsum(own[:, 3] * weights[own[:, 2]])))
            ends = np.searchsorted(epochs, epochs + window)
            first = int(np.argmax(sums[ends] - sums[:-1]))
            own = own[first : ends[first]]
        np.add.at(found[row], own[:, 2], own[:, 3])
    return found
