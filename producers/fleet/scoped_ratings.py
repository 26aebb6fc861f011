"""The ratings of a data set over the scope of a campaign, by device, oldest first.

Of a cell the first rating counts, as everywhere in a replay. The rows of all devices are found in
one pass: a device's vector is then made from a slice.
"""

from __future__ import annotations

import numpy as np

from producers.fleet.population import Population, rows_of_devices
from producers.ranking.in_scope import LIKED_STARS, ScopeIndex, stars_of
from stream_app.campaigns.rated_items import RatedItems
from stream_app.wire.campaigns.plan import Campaign


class ScopedRatings:
    """What each device of a population has rated among the items of a campaign; `rows` ratings."""

    def __init__(self, population: Population, campaign: Campaign) -> None:
        rows, places = ScopeIndex(campaign).find(population.items)
        fresh = population.fresh[rows]
        rows, places = rows[fresh], places[fresh]
        order = np.argsort(population.users[rows], kind="stable")
        rows, self._places = rows[order], places[order]
        self._raw_stars = stars_of(population.raw_levels[rows], population.scale.levels)
        self._raw_liked = self._raw_stars >= LIKED_STARS
        self._slices = rows_of_devices(population, rows)
        self.rows = len(rows)

    def rated(self, device: bytes) -> RatedItems:
        """Return the ratings of a device; none for one that has rated nothing of the scope."""
        found = self._slices.get(device)
        if found is None:
            return RatedItems.none()
        return RatedItems(self._places[found], self._raw_stars[found], self._raw_liked[found])
