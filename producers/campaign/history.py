"""The vector of a stage, from what the user has rated; zeros, of the same length, without ratings.

An item is liked from 4 of 5 stars on, and where only the item is known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from producers.ranking import RatedItem
from stream_app import wire
from stream_app.campaigns import together, triangle
from stream_app.campaigns.grid import MAX_BOUND
from stream_app.campaigns.rated_items import RatedItems
from stream_app.wire.campaigns.plan import Campaign, Stage

LIKED_STARS = 4.0
_KIND = "together"


def check(stage: Stage, items: int) -> None:
    """Raise ValueError for a stage that this device cannot compute over a scope of `items`."""
    if stage.kind != _KIND:
        raise ValueError(f"stage {stage.kind}: this release contributes to {_KIND} only")
    if stage.bound > MAX_BOUND:
        raise ValueError(
            f"stage {stage.kind} of bound {stage.bound}: this release contributes up to {MAX_BOUND}"
        )
    if not 2 <= triangle.items_of(stage.size) <= items:
        raise ValueError(f"stage {stage.kind} of {stage.size} integers: no part of {items} items")


def vector(campaign: Campaign, stage: Stage, rated: Sequence[RatedItem]) -> NDArray[np.int32]:
    """Return what a device contributes, (size,), of integer norm at most the stage's bound."""
    items = triangle.items_of(stage.size)
    return together.contribution(over_scope(campaign, rated), items, stage.bound)


def over_scope(campaign: Campaign, rated: Sequence[RatedItem]) -> RatedItems:
    """Return the ratings of the campaign's scope, each item once, oldest first."""
    places = {wire.key(item): place for place, item in enumerate(campaign.scope)}
    known = [row for row in rated if row.key in places]
    stars = [LIKED_STARS if row.stars is None else row.stars for row in known]
    return RatedItems(
        np.array([places[row.key] for row in known], np.intp),
        np.array(stars, np.float64),
        np.array([each >= LIKED_STARS for each in stars], np.bool_),
    )
