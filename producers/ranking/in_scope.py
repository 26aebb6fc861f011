"""What the user has rated of a campaign's scope, as the device computes with it.

An item is liked from 4 of 5 stars on, and where only the item is known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from producers.ranking.clean_history import RatedItem
from stream_app import wire
from stream_app.campaigns.rated_items import RatedItems

LIKED_STARS = 4.0


def in_scope(scope: Sequence[wire.Item], rated: Sequence[RatedItem]) -> RatedItems:
    """Return the ratings of the scope's items, oldest first; `rated` has each item once."""
    places = {wire.key(item): place for place, item in enumerate(scope)}
    known = [row for row in rated if row.key in places]
    stars = [LIKED_STARS if row.stars is None else row.stars for row in known]
    return RatedItems(
        np.array([places[row.key] for row in known], np.intp),
        np.array(stars, np.float64),
        np.array([each >= LIKED_STARS for each in stars], np.bool_),
    )
