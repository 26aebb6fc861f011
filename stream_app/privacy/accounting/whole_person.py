"""What one report costs a person as a whole.

Two words for the difference between two worlds:

    person   everything that one person ever reported. Mechanisms that protect presence: all of it
             against nothing at all, so each cell against "missing", in both directions. Mechanisms
             that protect a value only: every value replaced by any other; that the ratings exist is
             public.
    replaced everything replaced by anything else: each cell by any rating or none. No ledger
             charges it; it is what a budget means against an observer who knows that the person has
             one of two records. Where presence is protected it can exceed `person`: thinning hides
             "missing" from a level better than two levels from each other, and of laplace the ends
             of the scale are twice as far apart as an end and "missing".

For each, `report_loss` returns the loss that dominates every pair of neighbours of a mechanism, for
the pair of worlds and for the exchanged pair.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from stream_app.privacy import registry
from stream_app.privacy.accounting.dominating_pair import (
    DominatingPair,
    presence_pairs,
    value_pairs,
)
from stream_app.privacy.accounting.loss_distribution import LossDistribution, PairLoss
from stream_app.privacy.accounting.renyi import SCALE
from stream_app.privacy.gaussian import naming
from stream_app.privacy.gaussian.campaign_loss import CampaignCost, CampaignLoss, is_campaign
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.privacy_map import Adjacency

Neighbours = Literal["person", "replaced"]


@dataclass(frozen=True)
class ReportLoss:
    """The loss of one report for a pair of worlds, and for the exchanged pair."""

    forward: LossDistribution
    backward: LossDistribution

    def self_composed(self, count: int) -> ReportLoss:
        """Return the loss of `count` reports."""
        return ReportLoss(self.forward.self_composed(count), self.backward.self_composed(count))

    def compose(self, other: ReportLoss) -> ReportLoss:
        """Return the loss of both."""
        return ReportLoss(
            self.forward.compose(other.forward), self.backward.compose(other.backward)
        )

    def epsilon(self, delta: float) -> float:
        """Return an upper bound of epsilon at `delta`, for both directions."""
        found = self.forward.epsilon(delta)
        return found if self.backward == self.forward else max(found, self.backward.epsilon(delta))

    def delta(self, epsilon: float) -> float:
        """Return an upper bound of delta at `epsilon`, for both directions."""
        found = self.forward.delta(epsilon)
        return found if self.backward == self.forward else max(found, self.backward.delta(epsilon))


NOTHING_REPORTED = ReportLoss(LossDistribution(), LossDistribution())


@lru_cache(maxsize=256)
def report_loss(id: str, neighbours: Neighbours = "person") -> ReportLoss:
    """Return the loss of one report of a mechanism id.

    Raises ValueError for an unknown id and for a mechanism that protects nothing.
    """
    if is_campaign(id):
        return _campaign(id, neighbours)
    mechanism = registry.parse(id)
    if mechanism.adjacency is Adjacency.NOTHING:
        raise ValueError(f"mechanism {id}: protects nothing, so no budget covers it")
    return _rating(mechanism, neighbours)


def _campaign(id: str, neighbours: Neighbours) -> ReportLoss:
    """A person's vectors against zeros; against any other vectors, they move by twice the bound."""
    campaign = naming.parse(id)
    campaign = campaign if neighbours == "person" else campaign.of_people(2)
    loss = LossDistribution.single(CampaignLoss.of_campaign(campaign))
    return ReportLoss(loss, loss)


def _rating(mechanism: Mechanism, neighbours: Neighbours) -> ReportLoss:
    found = [mechanism.table(mask) for mask in mechanism.masks or (0,)]
    # Masks with equal rows, in whatever order, have the same pairs.
    tables = {frozenset(table.counts): table for table in reversed(found) if table}.values()
    presence = mechanism.adjacency is Adjacency.CELL and neighbours == "person"
    rows = presence_pairs if presence else value_pairs
    pair = DominatingPair.covering(each for table in tables for each in rows(table))
    forward = LossDistribution.single(PairLoss(pair))
    if not presence:
        return ReportLoss(forward, forward)  # the pairs are in both orders already
    return ReportLoss(forward, LossDistribution.single(PairLoss(pair.reversed())))


@lru_cache(maxsize=256)
def sum_cost(id: str) -> tuple[Fraction, Fraction]:
    """Return the (epsilon, delta) of one report for the whole person.

    ValueError for a mechanism that protects nothing.
    """
    if is_campaign(id):
        cost = CampaignCost(id)
        return cost.epsilon, cost.delta
    mechanism = registry.parse(id)
    if mechanism.epsilon is None:
        raise ValueError(f"mechanism {id}: protects nothing, so no budget covers it")
    return mechanism.epsilon, Fraction(0)


def renyi_cost(id: str, order: Fraction, neighbours: Neighbours = "person") -> int:
    """Return the divergence of one report in 2^-40 nats, rounded up, over both directions."""
    loss = report_loss(id, neighbours)
    return max(
        math.ceil(sum(count * member.renyi(order) for member, count in direction.members) * SCALE)
        for direction in (loss.forward, loss.backward)
    )
