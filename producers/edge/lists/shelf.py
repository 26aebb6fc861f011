"""The items of a public table, or of the edge's own pairs, among those of the edge.

The table names items by key; an id is text of the edge's own catalogue or feedback, of the public
catalogue, or the number itself. An item without an id is at `NOWHERE`, in no list.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from producers.edge.lists.item_index import NOWHERE, ItemIndex, Places, named
from producers.edge.lists.picking import Ranked, by_score
from producers.edge.lists.stored_history import Done
from producers.ranking.campaign_ranker import CampaignRanker
from producers.ranking.clean_history import RatedItem
from producers.ranking.local_recommender import LocalRecommender
from producers.ranking.ranker import Ranker


class Shelf:
    """A ranker, and where its items (n,) are in the index. method: what its lists are made by,
    where only items with a score above 0 are ranked; empty is what the ranker says. titles,
    withdrawn (m,): of the public catalogue. named: places of items that it names, or that are
    numbers; the others have their names from the edge's own catalogue or feedback alone."""

    def __init__(
        self, ranker: Ranker | CampaignRanker, places: Places, index: ItemIndex, method: str = ""
    ) -> None:
        self.ranker, self.places, self._index, self._method = ranker, places, index, method
        self.titles, self.withdrawn = dict[int, str](), np.zeros(0, np.intp)
        self.named = np.zeros(0, np.intp)
        self.as_of = ranker.side.version if isinstance(ranker, Ranker) and not method else None
        self._slots = np.full(int(places.max(initial=0)) + 1, -1)
        self._slots[places] = np.arange(len(places))
        self._slots[NOWHERE] = -1

    @classmethod
    def public(cls, local: LocalRecommender, index: ItemIndex) -> Self:
        """Return the items of a public table, which are in the index from then on."""
        assert isinstance(local.ranker, Ranker | CampaignRanker)  # an edge takes no other table
        keys = local.table.side.keys.tolist()
        places = [_place(key, local, index) for key in keys]
        found = cls(local.ranker, np.array(places, np.intp), index)
        is_named = [_named(key, local) is not None for key in keys]
        found.named = found.places[np.array(is_named, np.bool_)]
        titles = zip(places, map(local.table.title, keys), strict=True)
        found.titles = {place: title for place, title in titles if place != NOWHERE and title}
        withdrawn = map(index.find_key, local.withdrawn.tolist())
        found.withdrawn = np.array([place for place in withdrawn if place is not None], np.intp)
        return found

    def ranked(self, done: Done, *, now: bool = False) -> Ranked:
        """Return the items by their scores for what a user has done."""
        if isinstance(self.ranker, Ranker):
            found = self.ranker.scored(done.rated, now=now)
        else:
            found = self.ranker.scored(done.rows)

        def reasons(places: Places) -> list[tuple[str, ...]]:
            behind = found.reasons(self._slots[places])
            texts = self._index.texts
            return [tuple(texts[place] for place in self._index.places(keys)) for keys in behind]

        more = self._method or found.method, found.known, self.as_of, reasons, self.likeness
        return by_score(*self._kept(found.scores, above=bool(self._method)), *more)

    def near(self, place: int | None, text: str) -> Ranked | None:
        """Return the items by what one adds to their scores; None where it is not here."""
        if place is None or place >= len(self._slots) or self._slots[place] < 0:
            return None
        found = self.ranker.scored([RatedItem(*named(text), None)])
        gained = found.scores - self.ranker.scored([]).scores
        return by_score(
            *self._kept(gained, above=True), self._method or found.method, 1, self.as_of
        )

    def likeness(self, places: Places) -> NDArray[np.floating] | None:
        """Return how alike items are, (c, c) up to 1: the cosine of their factors, or the larger of
        the two links; None where the table has neither."""
        if not isinstance(self.ranker, Ranker):
            return None
        side, slots = self.ranker.side, self._slots[places]
        if side.factors.shape[1]:
            vectors = side.factors[slots]
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors = vectors / np.maximum(lengths, 1e-12)
            return np.asarray(vectors @ vectors.T)
        if not side.link_targets.shape[1]:
            return None
        columns = np.full(len(side), len(slots))
        columns[slots] = np.arange(len(slots))
        links = np.zeros((len(slots), len(slots) + 1), np.float32)
        targets = columns[side.link_targets[slots]]
        np.maximum.at(links, (np.arange(len(slots))[:, None], targets), side.link_weights[slots])
        found = np.maximum(links[:, :-1], links[:, :-1].T)
        return np.asarray(found / max(float(found.max(initial=0)), 1e-12))

    def _kept(
        self, scores: NDArray[np.floating], *, above: bool
    ) -> tuple[Places, NDArray[np.floating]]:
        """Return the items, or those with a score `above` 0."""
        kept = scores > 0 if above else slice(None)
        return self.places[kept], scores[kept]


def _place(key: int, local: LocalRecommender, index: ItemIndex) -> int:
    found = index.find_key(key)
    if found is not None:
        return found
    text = _named(key, local)
    return NOWHERE if text is None else index.place(text)


def _named(key: int, local: LocalRecommender) -> str | None:
    text = str(local.item(key))  # where the public catalogue lacks it, a text of another key
    return text if named(text)[1] == key else None
