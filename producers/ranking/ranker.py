"""Lists made on the device, from its own clean history and the public item side.

    history weight   by stars: LIKES, and 1 for an item without stars
    recency          `stream_app/ranking/histories.py`, age in items of the whole history
    score            blend of links, factors, what follows, popularity, predicted stars

Nothing is sent: the history enters here and only the list leaves. What the item side says is
public and made of released reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking import scores
from stream_app.ranking.histories import History
from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.reasons import reasons_of

LIKES = (0.1, 0.25, 0.5, 0.85, 1.2)  # weight of 1 .. 5 stars


class Ranked(NamedTuple):
    """An item of a list with its score, which compares within the list alone, the items of the
    history that speak for it most, the strongest first, and the expected rating, if it is known."""

    item: int
    score: float
    because: tuple[int, ...] = ()
    stars: float | None = None


class Ranker:
    """Ranks the head items of one item side for any clean history.

    >>> ranker = Ranker(side)                                       # doctest: +SKIP
    >>> ranker.rank([1193, 2804], [5.0, 4.0], k=10, because=True)   # doctest: +SKIP
    """

    MOST_BECAUSE = 3

    def __init__(self, side: ItemSide, weights: scores.Weights | None = None) -> None:
        self.side = side
        self.weights = weights or scores.Weights()
        self._order = np.argsort(side.keys, kind="stable")
        self._keys = side.keys[self._order]
        self._taste = scores.taste_map(side)

    def rank(
        self,
        raw_items: Sequence[int],
        raw_ratings: Sequence[float | None] | None,
        k: int = 10,
        *,
        because: bool = False,
        in_order: bool = True,
        excluded: NDArray[np.uint64] | None = None,
    ) -> list[Ranked]:
        """Return at most k items that are neither in the history nor `excluded` (m,), best first.

        raw_items: keys of all that the user has rated, oldest first; of an item that occurs twice
        the later rating counts. raw_ratings: stars on 1 .. 5, None where only the item is known.
        in_order: False where the order of the history says nothing. Without an item of the head in
        the history the list is the popular items.
        """
        history = self.history(raw_items, raw_ratings, in_order=in_order)
        allowed = np.ones(len(self.side), np.bool_)
        allowed[history.slots] = False
        if excluded is not None:
            allowed &= ~np.isin(self.side.keys, excluded)
        taste = self._taste.taste(history)
        components = scores.component_scores(self.side, history, taste=taste)
        personal = len(history.slots) > 0
        blended = scores.blend(components, self.weights) if personal else components.popular
        slots = scores.top_slots(blended, k, allowed)
        reasons: list[list[int]] = [[] for _ in slots]
        if because and personal:
            rows = self._taste.rows[history.slots]
            found = reasons_of(self.side, history, rows, components, self.weights, slots)
            reasons = found.strongest(self.MOST_BECAUSE)
        keys = self.side.keys
        return [
            Ranked(int(keys[slot]), float(blended[slot]), tuple(int(keys[n]) for n in reason))
            for slot, reason in zip(slots, reasons, strict=True)
        ]

    def history(
        self,
        raw_items: Sequence[int],
        raw_ratings: Sequence[float | None] | None,
        *,
        in_order: bool = True,
    ) -> History:
        """Return the part of a history that the item side knows, with its weights; arguments as in
        `rank`. Raises ValueError unless there is a rating, or None, for every item."""
        items = np.array(raw_items, np.uint64).reshape(-1)
        stars = [None] * len(items) if raw_ratings is None else list(raw_ratings)
        if len(stars) != len(items):
            raise ValueError(f"{len(items)} items with {len(stars)} ratings: give one for each")
        ages = np.arange(len(items), dtype=np.float32)[::-1]
        weights = np.array([like_weight(rating) for rating in stars], np.float32)
        newest = len(items) - 1 - np.unique(items[::-1], return_index=True)[1]
        kept = newest[np.isin(items[newest], self._keys)]
        slots = self._order[np.searchsorted(self._keys, items[kept])]
        return History(slots, weights[kept], ages[kept] if in_order else None)


def like_weight(raw_rating: float | None) -> float:
    """Return the weight of an item with this many stars, between those of whole stars; 1 without
    stars. Raises ValueError off 1 .. 5."""
    if raw_rating is None:
        return 1.0
    if not 1 <= raw_rating <= 5:
        raise ValueError("a rating of the history is outside 1 .. 5: map it to the internal scale")
    return float(np.interp(raw_rating, np.arange(1, 6), LIKES))
