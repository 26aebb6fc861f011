"""What a device sends and what is learned, for every kind of stage: the code that devices run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns import together, triangle
from stream_app.campaigns.learning import stars as star_learning
from stream_app.campaigns.learning import together as together_learning
from stream_app.campaigns.plan import Campaign
from stream_app.campaigns.rated_items import RatedItems
from stream_app.campaigns.stars import contributions as stars
from stream_app.campaigns.stars import shape
from stream_app.campaigns.stars.side import StarsSide


@dataclass(frozen=True, eq=False)
class Public:
    """What the stages so far have released, as devices read it."""

    together: together.TogetherSide | None
    stars: StarsSide


def nothing(campaign: Campaign) -> Public:
    """Return what is public before the first stage."""
    items = len(campaign.scope)
    found = shape.shape_of(campaign.stages, items)
    factors = 1 if found is None else found.factors
    return Public(None, StarsSide.start(np.zeros((items, 0)), factors))


def contribution(
    campaign: Campaign, index: int, public: Public, rated: RatedItems
) -> NDArray[np.int32]:
    """Return what a device with these ratings sends in a stage."""
    stage = campaign.stages[index]
    if stage.kind == "together":
        items = triangle.items_of(stage.size)
        return together.contribution(rated, items, stage.bound)
    return stars.contribution(stage, public.stars, rated)


def learned(
    campaign: Campaign, index: int, public: Public, noisy: NDArray[np.int64], people: int
) -> Public:
    """Return what is public after a stage."""
    stage = campaign.stages[index]
    variance = campaign.parties * stage.variance
    if stage.kind == "together":
        return replace(public, together=together_learning.learn(noisy, stage.bound, variance))
    found = star_learning.NoisyStage(noisy, stage.bound, variance, people)
    of_plan = shape.shape_of(campaign.stages, len(campaign.scope))
    assert of_plan is not None
    return replace(public, stars=star_learning.learn(stage.kind, public.stars, found, of_plan.head))
