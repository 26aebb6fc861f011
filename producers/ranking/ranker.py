"""Lists made on the device, from its own clean history and the public item side.

    weight of an item   1 for a like, .2 for another rating, 1 for an item without stars
    visits, ages        of the user's own times (`stream_app/ranking/histories.py`)
    score               that of a server (`stream_app/ranking/scores.py`)

Nothing is sent: the history enters here and only the list leaves. What the item side says is
public and made of released reports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from producers.ranking.clean_history import RatedItem
from stream_app.ranking import histories, scores
from stream_app.ranking.histories import History
from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.pair_counts import RATED
from stream_app.ranking.reasons import reasons_of

LIKED_STARS = 3.8  # 7/10 up the scale: 4 and 5 of 1 .. 5


class Ranked(NamedTuple):
    """An item of a list with its score, which compares within the list alone, and the items of the
    history that speak for it most, the strongest first."""

    item: int
    score: float
    because: tuple[int, ...] = ()


class Scored(NamedTuple):
    """The score of every item of a side (n,), those of the history included; what made them; the
    slots of the history that are in the side (h,); and, for items at slots (m,), the keys of those
    of the history that speak for each most, the strongest first."""

    scores: NDArray[np.floating]
    method: str
    had: NDArray[np.intp]
    reasons: Callable[[NDArray[np.intp]], list[tuple[int, ...]]]

    @property
    def known(self) -> int:
        """How many items of the history are in the side."""
        return len(self.had)

    def best(
        self,
        keys: NDArray[np.uint64],
        k: int,
        *,
        because: bool = False,
        excluded: NDArray[np.uint64] | None = None,
    ) -> list[Ranked]:
        """Return at most k items that are neither in the history nor `excluded` (m,), best first;
        keys: those of the side (n,)."""
        allowed = np.ones(len(keys), np.bool_)
        allowed[self.had] = False
        if excluded is not None:
            allowed &= ~np.isin(keys, excluded)
        slots = scores.top_slots(self.scores, k, allowed)
        reasons = self.reasons(slots) if because else [()] * len(slots)
        return [
            Ranked(int(keys[slot]), float(self.scores[slot]), reason)
            for slot, reason in zip(slots, reasons, strict=True)
        ]


class Rated(NamedTuple):
    """What a user has rated, oldest first, (m,) each: item keys, likes, and times: the day and,
    within it, the place; equal places were rated at one time, and a day of -1 is not known."""

    items: NDArray[np.uint64]
    likes: NDArray[np.bool_]
    days: NDArray[np.int64]
    places: NDArray[np.int64]

    @classmethod
    def untimed(cls, raw_items: Sequence[int], raw_stars: Sequence[float | None]) -> Rated:
        """Return ratings of which the times are not known; raises ValueError unless there are
        stars, or None, for every item."""
        if len(raw_stars) != len(raw_items):
            raise ValueError(f"{len(raw_items)} items with {len(raw_stars)} ratings: give one each")
        likes = np.array([each is None or each >= LIKED_STARS for each in raw_stars], np.bool_)
        unknown = np.full(len(likes), -1, np.int64)
        return cls(np.array(raw_items, np.uint64), likes, unknown, np.zeros_like(unknown))


def rated_of(rated: Sequence[RatedItem]) -> Rated:
    """Return a clean history as columns; lines of one second are of one time."""
    found = Rated.untimed([row.key for row in rated], [row.stars for row in rated])
    days = [-1 if row.day is None else row.day for row in rated]
    places = [0 if row.at is None else row.at for row in rated]
    return found._replace(days=np.array(days, np.int64), places=np.array(places, np.int64))


class Ranker:
    """Ranks the head items of one item side for any clean history.

    >>> ranker = Ranker(side)                                       # doctest: +SKIP
    >>> ranker.rank(Rated.untimed([1193, 2804], [5.0, 4.0]), k=10)  # doctest: +SKIP
    """

    MOST_BECAUSE = 3

    def __init__(self, side: ItemSide) -> None:
        self.side = side
        self._order = np.argsort(side.keys, kind="stable")
        self._keys = side.keys[self._order]

    def rank(
        self,
        rated: Rated,
        k: int = 10,
        *,
        now: bool = False,
        because: bool = False,
        excluded: NDArray[np.uint64] | None = None,
    ) -> list[Ranked]:
        """Return at most k items that are neither in the history nor `excluded` (m,), best first:
        for the next visit, or `now` for this one. Of an item that occurs twice the later rating
        counts."""
        found = self.scored(rated, now=now)
        return found.best(self.side.keys, k, because=because, excluded=excluded)

    def scored(self, rated: Rated | Sequence[RatedItem], *, now: bool = False) -> Scored:
        """Return the scores for a clean history, oldest first."""
        history = self.history(rated if isinstance(rated, Rated) else rated_of(rated))
        return Scored(
            scores.score(self.side, history, now=now),
            scores.basis_of(self.side, history, now=now),
            history.slots,
            partial(self._reasons, history, now=now),
        )

    def _reasons(
        self, history: History, slots: NDArray[np.intp], *, now: bool
    ) -> list[tuple[int, ...]]:
        """Return the keys of the items of the history that speak for each slot most."""
        if not len(history.slots):
            return [()] * len(slots)
        found = reasons_of(self.side, history, slots, now=now).strongest(self.MOST_BECAUSE)
        return [tuple(int(self.side.keys[slot]) for slot in each) for each in found]

    def history(self, rated: Rated) -> History:
        """Return the part of a history that the item side knows."""
        items = rated.items
        newest = len(items) - 1 - np.unique(items[::-1], return_index=True)[1]
        found = np.searchsorted(self._keys, items)
        known = found < len(self._keys)
        known[known] = self._keys[found[known]] == items[known]
        kept = np.sort(newest[known[newest]])
        ago, ages = histories.in_time(rated.days, rated.places)
        slots = self._order[found[kept]]
        weights = np.where(rated.likes[kept], 1.0, RATED).astype(np.float32)
        return History(slots, weights, ago[kept], ages[kept])
