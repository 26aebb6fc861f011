"""One list in the making: places for new items, and one model after another.

new items    each place with the chance of the share, drawn first, by the largest theta
             (`own_feedback.py`)
first model  the places that are left
next models  what the ones before could not fill, in the order of falling back
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from producers.edge.http.contract.edge_bodies import Listed
from producers.edge.lists.item_index import Places
from producers.edge.lists.list_rules import Allowed
from producers.edge.lists.picking import Ranked, Room, picked
from producers.edge.lists.wishes import EdgeList, Wish

EXPLORED = "explore"


class Making:
    """A list that is not whole yet.

    blocked: what may not be in it by place, as what was seen; what is in it is blocked, too.
    titles: of the public table, for items without one in the catalogue.
    """

    def __init__(
        self, wish: Wish, allowed: Allowed, blocked: NDArray[np.bool_], titles: Mapping[int, str]
    ) -> None:
        self._wish, self._allowed, self._titles = wish, allowed, titles
        self._blocked = blocked
        self._room = Room(wish.most_per_category, lambda place: allowed.row(place).categories)
        self._items, self._notes = list[Listed](), list[str]()
        self._new: dict[int, Listed] = {}
        self._first: tuple[str, Ranked] | None = None

    @property
    def left(self) -> int:
        """How many items are still wanted."""
        return self._wish.n - len(self._items) - len(self._new)

    def explore(
        self, new: tuple[Places, Any, Any], share: float, random: np.random.Generator
    ) -> None:
        """Give places of the list to new items: their places in the index, hits and misses."""
        spots = np.flatnonzero(random.random(self._wish.n) < share).tolist()
        if not spots:
            return
        kept = self._passes(new[0])
        places, hits, misses = (column[kept] for column in new)
        for place in places[np.argsort(-random.beta(hits, misses), kind="stable")].tolist():
            if len(self._new) == len(spots):
                return
            if self._room.takes(place):
                self._new[spots[len(self._new)]] = self._item(EXPLORED, place)

    def add(self, model: str, ranked: Ranked | str) -> None:
        """Add the best of a model, or note why it has none."""
        if isinstance(ranked, str):
            self._notes.append(f"not by {model}: {ranked}")
            return
        diversity = self._wish.diversity or 0.0
        rows = picked(ranked, self.left, self._passes, self._room, diversity)
        if rows:
            self._first = self._first or (model, ranked)
        places, scores = ranked.places[rows], ranked.scores[rows]
        reasons = ranked.reasons(places) if ranked.reasons and rows else [()] * len(rows)
        for place, score, because in zip(places.tolist(), scores.tolist(), reasons, strict=True):
            self._items.append(self._item(model, place, score, because))

    def made(self, **fields: Any) -> EdgeList:
        """Return the list, with these fields of it."""
        if self.left:
            self._notes.append(self._shortage())
        for spot, item in sorted(self._new.items()):
            self._items.insert(spot, item)
        nothing = EXPLORED if self._new else ""
        by, used = self._first or (nothing, Ranked(np.zeros(0, np.intp), np.zeros(0), nothing))
        return EdgeList(
            items=tuple(self._items),
            ranked_by=by,
            method=used.method,
            known=used.known,
            as_of=used.as_of,
            reason="; ".join(self._notes),
            **fields,
        )

    def _passes(self, places: Places) -> NDArray[np.bool_]:
        """Return whether each item may be in the list; not one that was met only now."""
        known = places < len(self._blocked)
        blocked = self._blocked[np.where(known, places, 0)]
        return self._allowed.passing(places) & known & ~blocked

    def _item(
        self, by: str, place: int, score: float = 0.0, because: tuple[str, ...] = ()
    ) -> Listed:
        row, self._blocked[place] = self._allowed.row(place), True
        title = row.title or self._titles.get(place, "")
        return Listed(row.item, title, score, tuple(row.categories), because, row.image, by)

    def _shortage(self) -> str:
        count, wish = self._wish.n - self.left, self._wish
        items = "items of the catalogue" if self._allowed.snapshot.rows else "items"
        left = f"{count or 'no'} {items} are left"
        if wish.filter is not None:
            return f"{left} by the filter, without what was seen or excluded"
        if wish.most_per_category is not None:
            return f"{left} with {wish.most_per_category} of a category"
        return f"{left}, without what was seen or excluded"
