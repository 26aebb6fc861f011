"""What a person sends in any stage of a plan, and the public side that it is computed from.

The vector follows from the plan, the public side and the person's own ratings. Its norm is within
the stage's bound whatever the side is: the side only chooses the direction. So the privacy of a
contribution rests on nothing that the server publishes. A side is an adaptive choice of the query,
which the composition of the stages allows (Dong, Roth and Su 2022, Cor. 3.3), and a dishonest one,
even another one for each device, costs accuracy. Whether a side is refused depends on plan and side
alone, never on ratings: that a device takes part shows nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns import together
from stream_app.campaigns.contribution_vectors import triangle_items
from stream_app.campaigns.features import columns
from stream_app.campaigns.plan import Campaign
from stream_app.campaigns.public_side import PublicSide
from stream_app.campaigns.rated_items import RatedItems
from stream_app.campaigns.stars import contributions as stars
from stream_app.campaigns.stars import shape
from stream_app.campaigns.stars.side import StarsSide


class OtherSide(ValueError):
    """The public side that a stage needs is missing, or another one."""


def contribution(
    campaign: Campaign, index: int, side: PublicSide | None, rated: RatedItems
) -> NDArray[np.int32]:
    """Return what a person sends in stage `index`, (size,), of integer norm at most its bound.

    Raises OtherSide where the stage needs a side and `side` is not that after the stages before.
    """
    stage = campaign.stages[index]
    if stage.kind in shape.KINDS:
        return stars.contribution(stage, stars_before(campaign, index, side), rated)
    return together.contribution(rated, triangle_items(stage.size), stage.bound)


def stars_before(campaign: Campaign, index: int, side: PublicSide | None) -> StarsSide:
    """Return the side of *stars* that stage `index` of a plan, one of *stars*, begins with.

    The first begins with nothing learned. Raises OtherSide for a side of another campaign, of
    other sizes, or after fewer or more stages; ValueError for a plan whose stages do not fit.
    """
    found = shape.shape_of(campaign.stages, len(campaign.scope))
    learned = sum(stage.kind in shape.KINDS for stage in campaign.stages[:index])
    if side is not None and side.number != campaign.number:
        side = None
    known = None if side is None else side.stars
    if known is None and learned == 0 and found is not None:
        features = columns(campaign.public_features, found.items)
        return StarsSide.start(features, found.factors)
    if side is None or known is None or found is None or side.scope != campaign.scope:
        raise OtherSide(_needs(campaign, index, "there is none"))
    if side.features != campaign.public_features:
        raise OtherSide(_needs(campaign, index, "this one has other features of the items"))
    if known.stages != learned or not known.is_of(found):
        raise OtherSide(_needs(campaign, index, f"this one is after {known.stages} of {learned}"))
    return known


def _needs(campaign: Campaign, index: int, reason: str) -> str:
    return (
        f"stage {index} ({campaign.stages[index].kind}) of campaign {campaign.number} is computed "
        f"from the public item side after the stages of stars before it, and {reason}"
    )
