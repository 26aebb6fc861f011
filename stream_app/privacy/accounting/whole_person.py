"""What one report costs: a person as a whole, or one rating.

Three words for the difference between two worlds:

    person   everything that one person ever reported. Mechanisms that protect presence: all of it
             against nothing at all, so each cell against "missing" and each profile against the
             empty one, in both directions. Mechanisms that protect a value only: every value
             replaced by any other; that the ratings exist is public.
    replaced everything replaced by anything else: each cell by any rating or none, each profile by
             any other. No ledger charges it; it is what a budget means against an observer who
             knows that the person has one of two records. Where presence is protected it can exceed
             `person`: thinning hides "missing" from a level better than two levels from each other,
             and of laplace the ends of the scale are twice as far apart as an end and "missing".
    rating   one cell (a value, or its presence) changes in any way, and with it one item of every
             profile; the cost of reporting the same rating again and again.

For each, `report_loss` returns the loss that dominates every pair of neighbours of a mechanism, for
the pair of worlds and for the exchanged pair. A profile of at most c items costs a person what the
bits or coordinates that c items can change carry: for BLIP min(c K, L) bits at epsilon / K each, so
never more than min(c, L / K) epsilons; for JLT a move of every coordinate by c. Where the mechanism
has a cap of N items, c is N at most, and one rating changes two items of a release: the bits of
both, or a move of coordinates by 2 (of some, which a move of all dominates).
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
from stream_app.privacy.accounting.gaussian import ProjectionLoss
from stream_app.privacy.accounting.loss_distribution import LossDistribution, PairLoss
from stream_app.privacy.accounting.renyi import SCALE
from stream_app.privacy.exact.integer_tables import exp_bounds
from stream_app.privacy.gaussian import naming
from stream_app.privacy.gaussian.campaign_loss import CampaignCost, CampaignLoss, is_campaign
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.privacy_map import Adjacency
from stream_app.privacy.profiles import profile_registry as profiles
from stream_app.privacy.profiles.blip import Blip
from stream_app.privacy.profiles.jlt import Jlt
from stream_app.privacy.profiles.profile_mechanism import MOST_ITEMS, changed_items

Neighbours = Literal["person", "replaced", "rating"]


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
def report_loss(
    id: str, neighbours: Neighbours = "person", most_items: int = MOST_ITEMS
) -> ReportLoss:
    """Return the loss of one report of a mechanism id; a profile has at most `most_items` items.

    Raises ValueError for an unknown id and for a mechanism that protects nothing.
    """
    if is_campaign(id):
        return _campaign(id, neighbours)
    mechanism = parse(id)
    if mechanism.adjacency is Adjacency.NOTHING:
        raise ValueError(f"mechanism {id}: protects nothing, so no budget covers it")
    if isinstance(mechanism, Blip):
        return _blip(mechanism, _changed(mechanism, neighbours, most_items))
    if isinstance(mechanism, Jlt):
        return _projection(mechanism, _changed(mechanism, neighbours, most_items))
    return _rating(mechanism, neighbours)


def _campaign(id: str, neighbours: Neighbours) -> ReportLoss:
    """A person's vectors against zeros; against any other vectors, they move by twice the bound."""
    campaign = naming.parse(id)
    campaign = campaign if neighbours == "person" else campaign.of_people(2)
    loss = LossDistribution.single(CampaignLoss.of_campaign(campaign))
    return ReportLoss(loss, loss)


def parse(id: str) -> Mechanism | Blip | Jlt:
    """Return the mechanism of a canonical id, of a rating or of a profile."""
    family = id.partition(":")[0] if isinstance(id, str) else ""
    if family not in profiles.FAMILIES:
        return registry.parse(id)
    profile = profiles.parse(id)
    assert isinstance(profile, Blip | Jlt)
    return profile


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


def _changed(mechanism: Blip | Jlt, neighbours: Neighbours, most_items: int) -> int:
    """Return how many items of a release differ between two neighbours at most."""
    if neighbours == "rating":
        return changed_items(mechanism.most)
    whole = min(most_items, mechanism.most)
    return 2 * whole if neighbours == "replaced" else whole


def _blip(mechanism: Blip, items: int) -> ReportLoss:
    if mechanism.epsilon is None or not mechanism.epsilon:
        return NOTHING_REPORTED
    keep, flip = mechanism.flip.denominator - mechanism.flip.numerator, mechanism.flip.numerator
    pair = DominatingPair.covering(
        [((keep, flip), (flip, keep)), ((flip, keep), (keep, flip))], mechanism.flip.denominator
    )
    bits = min(items * mechanism.hashes, mechanism.length)
    loss = LossDistribution.single(PairLoss(pair)).self_composed(bits)
    return ReportLoss(loss, loss)


def _projection(mechanism: Jlt, items: int) -> ReportLoss:
    if mechanism.noise is None:
        raise ValueError(f"mechanism {mechanism.id}: protects nothing, so no budget covers it")
    loss = LossDistribution.single(
        ProjectionLoss.of_table(mechanism.noise, mechanism.length, items)
    )
    return ReportLoss(loss, loss)


@lru_cache(maxsize=256)
def sum_cost(id: str, most_items: int = MOST_ITEMS) -> tuple[Fraction, Fraction]:
    """Return the (epsilon, delta) of one report for the whole person, by group privacy.

    ValueError for a mechanism that protects nothing.
    """
    if is_campaign(id):
        cost = CampaignCost(id)
        return cost.epsilon, cost.delta
    mechanism = parse(id)
    if mechanism.epsilon is None:
        raise ValueError(f"mechanism {id}: protects nothing, so no budget covers it")
    if isinstance(mechanism, Blip):
        return mechanism.profile_epsilon(most_items) or Fraction(0), Fraction(0)
    if isinstance(mechanism, Jlt):
        epsilon, delta = mechanism.of_released_item(mechanism.epsilon)
        items = min(most_items, mechanism.most)
        return items * epsilon, delta_of_group(epsilon, delta, items)
    return mechanism.epsilon, Fraction(0)


def delta_of_group(epsilon: Fraction, delta: Fraction, items: int) -> Fraction:
    """Return (1 + e^eps + .. + e^((items-1) eps)) delta, the factor rounded up, at most 1."""
    factor, high, power = Fraction(0), exp_bounds(epsilon)[1], Fraction(1)
    for _ in range(items if delta else 0):
        factor += power
        if factor * delta >= 1:
            return Fraction(1)
        # Rounded up: exact powers would double their digits.
        power = Fraction(-(-power * high * 2**64 // 1), 2**64)
    return factor * delta


def renyi_cost(
    id: str, order: Fraction, most_items: int = MOST_ITEMS, neighbours: Neighbours = "person"
) -> tuple[int, int]:
    """Return the divergence of one report in 2^-40 nats, and the probability in 2^-120 of an event
    of the noise tables outside of which it holds; both rounded up, over both directions."""
    loss = report_loss(id, neighbours, most_items)
    costs = []
    for direction in (loss.forward, loss.backward):
        divergence, event = Fraction(0), Fraction(0)
        for member, count in direction.members:
            each = member.renyi(order)
            divergence, event = divergence + count * each[0], event + count * each[1]
        costs.append((math.ceil(divergence * SCALE), math.ceil(event * SCALE**3)))
    return max(cost[0] for cost in costs), max(cost[1] for cost in costs)
