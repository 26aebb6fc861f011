"""The items of a campaign by key: rated keys and levels -> ratings over the scope."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from producers.ranking.in_scope import LIKED_STARS
from stream_app import wire
from stream_app.campaigns.rated_items import RatedItems
from stream_app.wire.campaigns.plan import Campaign


class ScopeIndex:
    """Finds items of one campaign's scope."""

    def __init__(self, campaign: Campaign) -> None:
        keys = np.array([wire.key(item) for item in campaign.scope], np.uint64)
        self._order = np.argsort(keys)
        self._keys = keys[self._order]

    def find(self, keys: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return which of the keys (n,) are in the scope, rising rows (m,), and their places."""
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        rows = np.flatnonzero(self._keys[at] == keys)
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
