"""The vector of a stage, from what the user has rated; zeros, of the same length, without ratings.

An item is liked from 4 of 5 stars on, and where only the item is known. Stages of *stars* use the
items whose stars are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from producers.ranking import RatedItem
from producers.ranking.in_scope import in_scope
from stream_app.campaigns import stage_vectors
from stream_app.campaigns.public_side import PublicSide, PublishedSide
from stream_app.campaigns.rated_items import RatedItems
from stream_app.campaigns.stars import shape
from stream_app.errors import UserError
from stream_app.wire.campaigns.plan import Campaign


def vector(
    campaign: Campaign, index: int, rated: Sequence[RatedItem], side: PublicSide | None = None
) -> NDArray[np.int32]:
    """Return what a device contributes to stage `index`, (size,), of integer norm at most the
    stage's bound, whatever the side is (`stage_vectors`).

    side: what is public of the campaign, for stages of *stars* after the first; UserError where it
    is missing or not that after the stages before.
    """
    if campaign.stages[index].kind in shape.KINDS:
        rated = [row for row in rated if row.stars is not None]
    return vector_of(campaign, index, in_scope(campaign.scope, rated), side)


def side_for(
    campaign: Campaign, index: int, published: Callable[[], PublishedSide | None]
) -> tuple[PublicSide | None, bool]:
    """Return the side that stage `index` needs, None for one that needs none, and whether it is
    there: the owner publishes that of the stages before, which may come after the stage opened."""
    if campaign.stages[index].kind not in shape.KINDS:
        return None, True
    found = published()
    side = found.side if found is not None and found.plan == campaign.digest else None
    try:
        stage_vectors.stars_before(campaign, index, side)
    except stage_vectors.OtherSide:
        return None, False
    return side, True


def vector_of(
    campaign: Campaign, index: int, rated: RatedItems, side: PublicSide | None = None
) -> NDArray[np.int32]:
    """Return the same from ratings over the scope, of which all stars are known."""
    try:
        return stage_vectors.contribution(campaign, index, side, rated)
    except stage_vectors.OtherSide as error:
        raise UserError(
            f"{error}; nothing was contributed: read the public item side again while the stage is "
            "open"
        ) from None
