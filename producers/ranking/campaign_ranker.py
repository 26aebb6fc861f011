"""Lists made on the device from the public side of a campaign and its own clean history.

    together   links of the likes, and the prior             (`campaigns/item_scores.py`)
    metadata   the prior by genres and years, with too few directions of taste above the noise
    popular    without a like, or where no item has genres or year: the order of popularity

The history enters here and only the list leaves. The side is public: it is made of noisy sums, in
which everything that a person has rated is one bounded part. The catalogue is public, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from producers.ranking.clean_history import RatedItem
from producers.ranking.in_scope import in_scope
from producers.ranking.ranker import Ranked, Scored
from stream_app import wire
from stream_app.campaigns.features import features_of
from stream_app.campaigns.item_scores import ItemScores
from stream_app.campaigns.public_side import PublicSide
from stream_app.campaigns.rated_items import RatedItems

MOST_BECAUSE = 3


class CampaignRanker:
    """Ranks the scope of one campaign for any clean history.

    entries: the public catalogue by item key, whose genres and years are features.

    >>> ranker = CampaignRanker(published.side)                           # doctest: +SKIP
    >>> ranker.rank([RatedItem(1193, 1193, 5.0)], k=10, because=True)     # doctest: +SKIP
    """

    def __init__(
        self, side: PublicSide, entries: Mapping[int, wire.CatalogueEntry] = MappingProxyType({})
    ) -> None:
        self.side = side
        self.keys = np.array([wire.key(item) for item in side.scope], np.uint64)
        known = [entries.get(key) for key in self.keys.tolist()]
        described = [(each.genres, each.year) if each else ((), None) for each in known]
        self._scores = ItemScores(side, features_of(described))

    def _method(self, own: RatedItems) -> Literal["together", "metadata", "popular"]:
        likes = own.places[own.liked]
        found = self._scores.together
        if found is not None and (likes < len(found.vectors)).any():
            return "together"
        return "metadata" if len(likes) and self._scores.has_features else "popular"

    def rank(
        self,
        rated: Sequence[RatedItem],
        k: int = 10,
        *,
        because: bool = False,
        excluded: NDArray[np.uint64] | None = None,
    ) -> list[Ranked]:
        """Return at most k items that are neither in the history nor `excluded` (m,), best first.

        rated: all that the user has rated, oldest first, each item once. because: name the likes
        that add most to each score by their links; an item without links has none.
        """
        return self.scored(rated).best(self.keys, k, because=because, excluded=excluded)

    def scored(
        self,
        rated: Sequence[RatedItem],
        *,
        now: bool = False,  # noqa: ARG002 (a campaign knows no visits)
    ) -> Scored:
        """Return the scores for a clean history, oldest first, each item once."""
        own = in_scope(self.side.scope, rated)
        scores = self._scores.of_person(own)
        return Scored(scores, self._method(own), own.places, partial(self._reasons, own))

    def _reasons(self, own: RatedItems, listed: NDArray[np.intp]) -> list[tuple[int, ...]]:
        """Return for each listed place the liked items whose links add most to its score."""
        found = self._scores.together
        if found is None:
            return [()] * len(listed)
        items = len(found.vectors)
        likes, linked = own.places[own.liked & (own.places < items)], listed < items
        added = np.zeros((len(likes), len(listed)))
        parts = found.vectors[likes] @ (found.weights * found.vectors[listed[linked]]).T
        added[:, linked] = self._scores.likes(own)[likes, None] * parts
        return [self._strongest(likes, added[:, n]) for n in range(len(listed))]

    def _strongest(self, likes: NDArray[np.intp], added: NDArray[np.floating]) -> tuple[int, ...]:
        order = np.argsort(-added, kind="stable")[:MOST_BECAUSE]
        return tuple(int(self.keys[likes[n]]) for n in order if added[n] > 0)
