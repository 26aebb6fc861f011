"""Stages that fit a budget: how much noise each noisy sum gets.

    mu^2 = largest that (epsilon, delta) allows;  stage k has f_k mu^2,  sum f_k <= 1
    variance_k = bound^2 / (f_k mu^2) + 9/4, rounded up

Stages compose by adding mu^2, although each depends on the sums before it (Dong, Roth and Su 2022,
Cor. 3.3; `stream_app/privacy/gaussian/certificate.py` proves it for the integers). The budget is
that of a person who contributes to every stage; with two parties each adds this noise, so that one
honest party is enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import msgspec

from stream_app.campaigns import together
from stream_app.campaigns.contribution_vectors import MAX_BOUND, triangle_items
from stream_app.campaigns.plan import MAX_INTEGERS, Campaign, Item, Stage, Wanted
from stream_app.campaigns.verified.layout import MAX_BOUND as PROVED_BOUND
from stream_app.privacy.gaussian.certificate import (
    SMOOTHING,
    CampaignCertificate,
    NoisySum,
    largest_square,
    least_variance,
)
from stream_app.privacy.gaussian.sampling import LARGEST_VARIANCE
from stream_app.wire.limits import MAX_CONTRIBUTIONS

BOUND = 2048  # a 4096th of the norm is lost in rounding at most; the noise is 2,000 times that
LEAST = 2
DEADLINE_CUTS = 18_000  # an hour of cuts
LARGEST_EPSILON = 64  # of a plan, as of a claim of `murmurec certify`
TOGETHER_ITEMS = 300
KIND = "together"
_ROOM = 2**31 - 256  # of a coordinate, for the sum and its noise


@dataclass(frozen=True)
class Outline:
    """What a campaign is planned from: its budget for a person, and its parties.

    together_items: of the scope, the first ones. A stage is aborted with fewer than `least`
    contributions and holds `most` at least, for which its grid is made coarser; None: as many as
    the grid allows, a million.
    """

    epsilon: Fraction
    delta: Fraction
    parties: Literal[1, 2]
    together_items: int = TOGETHER_ITEMS
    least: int = LEAST
    most: int | None = None
    deadline_cuts: int = DEADLINE_CUTS

    def __post_init__(self) -> None:
        if self.parties not in (1, 2):
            raise ValueError(f"parties {self.parties}: 1 (central) or 2 (split)")
        if not 0 < self.epsilon <= LARGEST_EPSILON or not 0 < self.delta < 1:
            raise ValueError(
                f"epsilon {float(self.epsilon):g} and delta {float(self.delta):g}: epsilon is "
                f"above 0, at most {LARGEST_EPSILON}; delta between 0 and 1"
            )
        if self.together_items < 2:
            raise ValueError(f"{self.together_items} items for together: give 2 at least")
        most = MAX_CONTRIBUTIONS if self.most is None else self.most
        if not 2 <= self.least <= most <= MAX_CONTRIBUTIONS:
            raise ValueError(
                f"least {self.least} and most {most} contributions: from 2 to {MAX_CONTRIBUTIONS}, "
                "the least not above the most"
            )
        if not 1 <= self.deadline_cuts <= 2**31:
            raise ValueError(f"a deadline of {self.deadline_cuts} cuts: give 1 to {2**31}")

    def wanted(self, items: int) -> list[Wanted]:
        """Return the stages over so many items of a scope, without their noise; ValueError for
        fewer than 2."""
        if items < 2:
            raise ValueError(f"a scope of {items} item: a campaign is over 2 at least")
        return [Wanted(KIND, together.size(min(self.together_items, items)), Fraction(1))]


def plan(
    outline: Outline,
    scope: Sequence[Item],
    number: int = 1,
    keys: tuple[str, ...] = (),
    *,
    signed: bool = False,
) -> Campaign:
    """Return a campaign over the public items of `scope`, in their order, which devices, parties
    and workers of this release follow.

    keys: of the parties, in hex, none while it is only written down. signed: contributions that no
    device has signed do not count. Raises ValueError for a scope that is too small, or so large
    that a contribution would not fit in a record.
    """
    found = stages(
        outline.epsilon,
        outline.delta,
        outline.wanted(len(scope)),
        least=outline.least,
        most=outline.most,
        deadline_cuts=outline.deadline_cuts,
    )
    for stage in found:
        if stage.size > MAX_INTEGERS:
            raise ValueError(
                f"stage {stage.kind} over {len(scope)} items has {stage.size} integers, and a "
                f"contribution holds {MAX_INTEGERS}; give fewer items"
            )
    campaign = Campaign(
        number,
        outline.epsilon,
        outline.delta,
        outline.parties,
        tuple(scope),
        found,
        keys,
        signed=True if signed else msgspec.UNSET,
    )
    check_stages(campaign)
    return campaign


def stages(
    epsilon: Fraction,
    delta: Fraction,
    wanted: Sequence[Wanted],
    *,
    bound: int = BOUND,
    least: int = LEAST,
    most: int | None = None,
    deadline_cuts: int = DEADLINE_CUTS,
) -> tuple[Stage, ...]:
    """Return the stages with the least noise that keeps a person within (epsilon, delta).

    bound: of a stage, or less where its noise would be wider than the sampler's tables, or where
    the sum of `most` contributions would not fit a coordinate. Raises ValueError where the shares
    are more than the whole, or where no noise is enough.
    """
    total = sum((each.share for each in wanted), Fraction(0))
    if total > 1:
        raise ValueError(f"shares of the stages add up to {total}: at most 1 is the budget")
    if not 1 <= bound <= MAX_BOUND:
        raise ValueError(f"bound {bound}: give 1 to {MAX_BOUND}")
    square = largest_square(epsilon, delta, sum(each.size for each in wanted))
    return tuple(
        Stage(
            kind=each.kind,
            size=each.size,
            bound=(fine := _bound(bound, each.share * square, max(least, most or 0))),
            variance=int(least_variance(fine, each.share * square)),
            share=each.share,
            least=least,
            deadline_cuts=deadline_cuts,
        )
        for each in wanted
    )


def _bound(largest: int, square: Fraction, most: int) -> int:
    """Return the largest bound up to `largest` whose noise of this mu^2 can be drawn, and whose sum
    of `most` contributions fits a coordinate."""
    found = min(largest, math.isqrt(int((LARGEST_VARIANCE - SMOOTHING - 1) * square)))
    deviations = 32 * (math.isqrt(math.ceil(1 / square)) + 2)  # of noise, in bounds
    return max(min(found, _ROOM // (most + deviations)), 1)


def certificate(planned: Sequence[Stage]) -> CampaignCertificate:
    """Return what contributing to every stage costs a person."""
    return CampaignCertificate(
        tuple(NoisySum(each.bound, Fraction(each.variance), each.size) for each in planned)
    )


def check_budget(campaign: Campaign) -> None:
    """Raise ValueError unless its stages together stay within its epsilon: a device refuses the
    plan before it debits anything.

    The owner may write any number: those whose exact curve would take days are refused unseen.
    """
    if campaign.epsilon > LARGEST_EPSILON:
        raise ValueError(
            f"campaign {campaign.number}: epsilon {float(campaign.epsilon):g} is above "
            f"{LARGEST_EPSILON}; add noise or leave stages out"
        )
    cost = certificate(campaign.stages)
    try:
        cost.check_cost()
    except ValueError as error:
        raise ValueError(f"campaign {campaign.number}: {error}") from None
    # At its own epsilon: an epsilon that is searched for a delta is rounded up.
    if cost.delta(campaign.epsilon) > campaign.delta:
        spent = cost.epsilon(campaign.delta)
        raise ValueError(
            f"campaign {campaign.number}: its stages cost epsilon {float(spent):.4f} at delta "
            f"{float(campaign.delta):g}, more than the {float(campaign.epsilon):g} that it states; "
            "add noise or leave stages out"
        )


def check_stages(campaign: Campaign) -> None:
    """Raise ValueError for stages that devices or workers of this release would not follow: of an
    unknown kind, too fine a grid, or sizes that are not those of their kinds over the scope."""
    items = len(campaign.scope)
    for index, stage in enumerate(campaign.stages):
        name = f"campaign {campaign.number}: stage {index} ({stage.kind})"
        if stage.kind != KIND:
            raise ValueError(f"{name} is of no kind that is learned from; choose {KIND}")
        if stage.bound > MAX_BOUND:
            raise ValueError(f"{name} has the bound {stage.bound}; give {MAX_BOUND} at most")
        if campaign.parties == 2 and stage.bound > PROVED_BOUND:
            raise ValueError(
                f"{name} has the bound {stage.bound}, and two parties check proofs of norms up to "
                f"{PROVED_BOUND}; give that at most"
            )
        if not 2 <= triangle_items(stage.size) <= items:
            raise ValueError(
                f"{name} has {stage.size} integers; s items of the {items} of the scope, 2 or "
                "more, give s (s + 1) / 2"
            )
