"""Lists made on the device from the public side of a campaign and its own clean history.

    together   score = sum_a w_a v_a (v_a . x), x the likes by recency   (`campaigns/together.py`)
    popular    without a like among those items, or with too few directions: by how many rated each
               item where *stars* has counted it, else in the order of the scope
    stars      what the user would rate, where *stars* has released: ridge regression of the own
               ratings on the side                                  (`campaigns/stars/fold_in.py`)

The history enters here and only the list leaves. The side is public: it is made of noisy sums, in
which everything that a person has rated is one bounded part.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from producers.ranking.clean_history import RatedItem
from producers.ranking.in_scope import in_scope
from producers.ranking.ranker import Ranked
from stream_app import wire
from stream_app.campaigns import together
from stream_app.campaigns.public_side import PublicSide
from stream_app.campaigns.rated_items import RatedItems
from stream_app.campaigns.stars import fold_in

MOST_BECAUSE = 3


class CampaignRanker:
    """Ranks the scope of one campaign for any clean history.

    >>> ranker = CampaignRanker(published.side)                           # doctest: +SKIP
    >>> ranker.rank([RatedItem(1193, 1193, 5.0)], k=10, because=True)     # doctest: +SKIP
    """

    def __init__(self, side: PublicSide) -> None:
        self.side = side
        self.keys = np.array([wire.key(item) for item in side.scope], np.uint64)

    def is_personal(self, rated: Sequence[RatedItem]) -> bool:
        """Return whether a list for this history is by *together*, else it is the popular items."""
        return self._is_personal(in_scope(self.side.scope, rated))

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
        that add most to each score; a popular item has none.
        """
        own = in_scope(self.side.scope, rated)
        allowed = np.ones(len(self.keys), np.bool_)
        allowed[own.places] = False
        if excluded is not None:
            allowed &= ~np.isin(self.keys, excluded)
        scores = self._scores(own)
        places = np.flatnonzero(allowed)
        listed = places[np.argsort(-scores[places], kind="stable")[:k]]
        personal = because and self._is_personal(own)
        reasons = self._reasons(own, listed) if personal else [()] * len(listed)
        stars = self._stars(rated, listed)
        return [
            Ranked(int(self.keys[place]), float(scores[place]), reason, expected)
            for place, reason, expected in zip(listed, reasons, stars, strict=True)
        ]

    def _is_personal(self, own: RatedItems) -> bool:
        found = self.side.together
        if found is None or found.is_popular:
            return False
        return bool(own.within(len(found.vectors)).liked.any())

    def _scores(self, own: RatedItems) -> NDArray[np.float64]:
        """Return the score of every item of the scope (n,). Items that *together* is not over come
        after its own, the popular ones first."""
        found, stars = self.side.together, self.side.stars
        popular = -np.arange(len(self.keys), dtype=np.float64) if stars is None else stars.counts
        if found is None or not self._is_personal(own):
            return popular
        scores = together.scores(found, own, by_recency=True).astype(np.float64)
        rest = popular[len(scores) :]
        below = rest - rest.max(initial=0.0) + scores.min() - 1
        return np.concatenate((scores, below))

    def _reasons(self, own: RatedItems, listed: NDArray[np.intp]) -> list[tuple[int, ...]]:
        """Return for each listed place the liked items that add most to its score."""
        found = self.side.together
        assert found is not None
        items = len(found.vectors)
        own, directed = own.within(items), listed < items
        likes = own.places[own.liked]
        weights = together.recency_weights(len(likes))
        added = np.zeros((len(likes), len(listed)))
        parts = found.vectors[likes] @ (found.weights * found.vectors[listed[directed]]).T
        added[:, directed] = weights[:, None] * parts
        return [self._strongest(likes, added[:, n]) for n in range(len(listed))]

    def _strongest(self, likes: NDArray[np.intp], added: NDArray[np.floating]) -> tuple[int, ...]:
        order = np.argsort(-added, kind="stable")[:MOST_BECAUSE]
        return tuple(int(self.keys[likes[n]]) for n in order if added[n] > 0)

    def _stars(
        self, rated: Sequence[RatedItem], listed: NDArray[np.intp]
    ) -> list[float] | list[None]:
        """Return what the user is expected to rate the listed places, 1 .. 5; None where nothing is
        released that says it."""
        side = self.side.stars
        if side is None:
            return [None] * len(listed)
        own = in_scope(self.side.scope, [row for row in rated if row.stars is not None])
        person = fold_in.fold_in(side, own)
        return [float(each) for each in fold_in.predict(side, person, listed)]
