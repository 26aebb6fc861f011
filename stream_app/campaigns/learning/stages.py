"""The kinds of stages: what the noisy sum of each adds to the public item side.

A kind is a row of `KINDS`: how the side is computed from its sum and from what the stages before it
gave. Which plans can be learned is what `planning.check_stages` takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.learning import stars, together
from stream_app.campaigns.learning.stars import NoisyStage
from stream_app.campaigns.plan import Campaign
from stream_app.campaigns.planning import check_stages
from stream_app.campaigns.public_side import PublicSide
from stream_app.campaigns.stage_vectors import stars_before
from stream_app.campaigns.stars import shape

Learn = Callable[[Campaign, int, PublicSide, NoisyStage], PublicSide]
"""(plan, index of the stage, side so far, what was released) -> side."""


def can_learn(campaign: Campaign) -> bool:
    """Return whether every stage is of a known kind and has the size that this kind gives it."""
    try:
        check_stages(campaign)
    except ValueError:
        return False
    return True


def learn(
    campaign: Campaign, index: int, side: PublicSide, noisy: NDArray[np.int64], people: int
) -> PublicSide:
    """Return the public side after stage `index`, from its noisy sum (size,) over so many people
    and the side before.

    Raises ArithmeticError where nothing can be learned from the sum.
    """
    stage = campaign.stages[index]
    found = NoisyStage(noisy, stage.bound, campaign.parties * stage.variance, people)
    return KINDS[stage.kind](campaign, index, side, found)


def _learn_together(
    campaign: Campaign,  # noqa: ARG001 (the signature of every kind)
    index: int,  # noqa: ARG001
    side: PublicSide,
    found: NoisyStage,
) -> PublicSide:
    learned = together.learn(found.integers, found.bound, found.variance)
    return replace(side, together=learned)


def _learn_stars(campaign: Campaign, index: int, side: PublicSide, found: NoisyStage) -> PublicSide:
    sizes = shape.shape_of(campaign.stages, len(campaign.scope))
    assert sizes is not None
    before = stars_before(campaign, index, side)
    kind = campaign.stages[index].kind
    return replace(side, stars=stars.learn(kind, before, found, sizes.head))


KINDS: Mapping[str, Learn] = {
    "together": _learn_together,
    **dict.fromkeys((*shape.BEFORE, *shape.PASS), _learn_stars),
}
