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
from fractions import Fraction
from typing import NamedTuple

from stream_app.campaigns import triangle
from stream_app.campaigns.grid import MAX_BOUND
from stream_app.campaigns.plan import Campaign, Stage
from stream_app.privacy.gaussian import (
    CampaignCertificate,
    NoisySum,
    largest_square,
    least_variance,
)
from stream_app.privacy.gaussian.certificate import SMOOTHING
from stream_app.privacy.gaussian.sampling import LARGEST_VARIANCE

BOUND = 2048  # a 4096th of the norm is lost in rounding at most; the noise is 2,000 times that
LEAST = 2
DEADLINE_CUTS = 18_000  # an hour of cuts
LARGEST_EPSILON = 64  # of a plan, as of a claim of `murmurec certify`
_KIND = "together"  # the stages that devices contribute to and workers learn from


class Wanted(NamedTuple):
    """A stage before its noise is known: its kind, integers of a contribution, and share."""

    kind: str
    size: int
    share: Fraction


def stages(
    epsilon: Fraction,
    delta: Fraction,
    wanted: Sequence[Wanted],
    *,
    bound: int = BOUND,
    least: int = LEAST,
    deadline_cuts: int = DEADLINE_CUTS,
) -> tuple[Stage, ...]:
    """Return the stages with the least noise that keeps a person within (epsilon, delta).

    bound: of a stage, or less where its noise would be wider than the sampler's tables. Raises
    ValueError where the shares are more than the whole, or where no noise is enough.
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
            bound=(fine := _bound(bound, each.share * square)),
            variance=int(least_variance(fine, each.share * square)),
            share=each.share,
            least=least,
            deadline_cuts=deadline_cuts,
        )
        for each in wanted
    )


def _bound(most: int, square: Fraction) -> int:
    """Return the largest bound up to `most` whose noise of this mu^2 can be drawn."""
    return max(min(most, math.isqrt(int((LARGEST_VARIANCE - SMOOTHING - 1) * square))), 1)


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
    """Raise ValueError for a stage that devices or workers of this release would not follow."""
    for index, stage in enumerate(campaign.stages):
        name = f"campaign {campaign.number}: stage {index} ({stage.kind})"
        if stage.kind != _KIND:
            raise ValueError(f"{name} is of no kind that is learned from; give {_KIND}")
        if stage.bound > MAX_BOUND:
            raise ValueError(f"{name} has the bound {stage.bound}; give {MAX_BOUND} at most")
        if not 2 <= triangle.items_of(stage.size) <= len(campaign.scope):
            raise ValueError(
                f"{name} has {stage.size} integers; s items of the {len(campaign.scope)} of the "
                "scope, 2 or more, give s (s + 1) / 2"
            )
