"""What the user has rated of a campaign's scope, as the device computes with it.

An item is liked from 4 of 5 stars on, and where only the item is known.

The items of a campaign by key: rated keys and levels -> ratings over the scope.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from producers.ranking.clean_history import RatedItem
from stream_app import wire
from stream_app.campaigns.rated_items import RatedItems
from stream_app.wire.campaigns.plan import Campaign

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


class ScopeIndex:
    """Finds items of one campaign's scope; `keys`: theirs, rising."""

    def __init__(self, campaign: Campaign) -> None:
        keys = np.array([wire.key(item) for item in campaign.scope], np.uint64)
        self._order = np.argsort(keys)
        self.keys = keys[self._order]

    def find(self, keys: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return which of the keys (n,) are in the scope, rising rows (m,), and their places."""
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        rows = np.flatnonzero(self.keys[at] == keys)
        return rows, self._order[at[rows]]

    def rated(
        self, keys: NDArray[np.uint64], raw_levels: NDArray[np.uint8], levels: int
    ) -> RatedItems:
        """Return the ratings over the scope, of distinct keys and levels on a scale of `levels`."""
        rows, places = self.find(keys)
        raw_stars = stars_of(raw_levels[rows], levels)
        return RatedItems(places, raw_stars, raw_stars >= LIKED_STARS)


def stars_of(raw_levels: NDArray[np.uint8], levels: int) -> NDArray[np.float64]:
    """Return levels of a scale as stars 1 .. 5."""
    return 1 + 4 * raw_levels.astype(np.float64) / (levels - 1)
