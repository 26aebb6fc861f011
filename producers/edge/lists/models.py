"""The models of an edge: each gives scores for what a user has done, or says why it cannot.

    local    the public table and the clean history, as on a device      (`producers.ranking`)
    server   what the workers answer for the pseudonym, best first; asked only where it is set up
    own      what the edge's own users like together                      (`own_pairs.py`)
    popular  the edge's own, of all time and lately                       (`own_feedback.py`)
    latest   by when they came into the catalogue

None but `server` sends anything, and it sends a pseudonym.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from producers.edge.lists.item_index import NOWHERE, ItemIndex, Places
from producers.edge.lists.list_rules import Allowed
from producers.edge.lists.newest_tables import PublicTables, Shelf
from producers.edge.lists.own_feedback import OwnFeedback
from producers.edge.lists.picking import NO_SCORES, Scores, Similar
from producers.edge.lists.stored_history import Done, named
from producers.edge.lists.wishes import MOST
from producers.ranking.clean_history import RatedItem
from producers.ranking.ranker import LIKED_STARS
from stream_app import wire
from stream_app.errors import UserError
from stream_app.ranking.pair_counts import RATED

MOST_BECAUSE = 3
_MOST_NEAR = 2048  # popular items, and new ones, that share a category with another
Reasons = Callable[[Places], list[tuple[str, ...]]]
AskWorkers = Callable[[bytes, int], Sequence[wire.Item]]
"""The pseudonym and how many -> items, best first; UserError where they do not answer."""


@dataclass(frozen=True)
class Ranked:
    """Scores of a model, how it made them, and what a list needs besides: the items of the history
    behind each (None: it has no reasons), and how alike they are (None: by their categories)."""

    scores: Scores
    method: str
    known: int = 0
    as_of: int | None = None
    reasons: Reasons | None = None
    similar: Similar | None = None


class Models:
    """Every model over one index. What another thread renews: `feedback`, and `latest`: items by
    when they came into the catalogue, the newest first."""

    def __init__(
        self,
        index: ItemIndex,
        tables: PublicTables,
        feedback: OwnFeedback,
        server: AskWorkers | None = None,
    ) -> None:
        self._index, self._tables, self._server = index, tables, server
        self.feedback = feedback
        self.latest = NO_SCORES
        self._shelf: Shelf | None = None

    @property
    def shelf(self) -> Shelf | None:
        """The items of the newest public table; None before the first."""
        local, shelf = self._tables.ranker, self._shelf
        if local is not None and (shelf is None or shelf.local is not local):
            shelf = self._shelf = Shelf(local, self._index)
        return None if local is None else shelf

    def renew_shelf(self) -> None:
        """Name what is nameless of the public table, where more items were met since."""
        shelf = self.shelf
        if shelf is not None and shelf.is_nameless and len(self._index) > shelf.met:
            self._shelf = Shelf(shelf.local, self._index)

    def ranked(self, model: str, done: Done, *, now: bool = False) -> Ranked | str:
        """Return the scores of a model for what was done, or why it has none."""
        if model == "local":
            return self._local(done, now=now)
        if model == "server":
            return self._from_server(done)
        if model == "own":
            return self._own(done)
        if model == "popular":
            popular = self.feedback.popular
            return Ranked(popular, "popular") if len(popular.places) else "no likes yet"
        return Ranked(self.latest, "latest") if len(self.latest.places) else "no items yet"

    def near(self, model: str, item: str) -> Ranked | str:
        """Return the items that go with one by a model, "local" or "own", or why there are none."""
        place = self._index.find(item)
        if model == "own":
            slot = self.feedback.pairs.slot(place)
            if slot is None:
                return "nobody of the site has liked the item"
            return Ranked(_positive(self.feedback.pairs.near(slot)), "pairs", 1)
        shelf = self.shelf
        if shelf is None:
            return self._tables.problem
        if shelf.slot(place) is None:
            return "the item is not in the public table"
        with_it = shelf.ranker.scored([RatedItem(*named(item), None)])
        gained = Scores(shelf.places, with_it.scores - shelf.ranker.scored([]).scores)
        return Ranked(_positive(gained), with_it.method, 1, shelf.as_of)

    def of_categories(self, allowed: Allowed, item: str) -> Ranked | str:
        """Return popular and new items by the share of categories that they have in common with
        one."""
        place = self._index.find(item)
        own = set() if place is None else set(allowed.categories(place))
        if not own:
            return "the item has no category"
        first = (self.feedback.popular.places[:_MOST_NEAR], self.latest.places[:_MOST_NEAR])
        places = np.unique(np.concatenate(first))
        both = [set(allowed.categories(each)) for each in places.tolist()]
        alike = np.array([len(own & each) / len(own | each) for each in both])
        return Ranked(_positive(Scores(places, alike)), "categories", 1)

    def _local(self, done: Done, *, now: bool) -> Ranked | str:
        shelf = self.shelf
        if shelf is None:
            return self._tables.problem
        found = shelf.ranker.scored(done.rated, now=now)
        names = {row.key: str(row.item) for row in done.rated}

        def reasons(places: Places) -> list[tuple[str, ...]]:
            behind = found.reasons(shelf.slots(places))
            return [tuple(names[key] for key in keys) for keys in behind]

        scores = Scores(shelf.places, found.scores)
        return Ranked(scores, found.method, found.known, shelf.as_of, reasons, shelf.likeness)

    def _own(self, done: Done) -> Ranked | str:
        pairs = self.feedback.pairs
        rows = [(pairs.slot(self._index.find(str(row.item))), row) for row in done.rated]
        known = [(slot, row) for slot, row in rows if slot is not None]
        if not known:
            return "nobody of the site has liked an item of the history"
        slots = np.array([slot for slot, _ in known], np.intp)
        x = np.array([1.0 if _is_liked(row) else RATED for _, row in known], np.float32)

        def reasons(places: Places) -> list[tuple[str, ...]]:
            behind = pairs.reasons(slots, x, places, MOST_BECAUSE)
            return [tuple(str(known[row][1].item) for row in rows) for rows in behind]

        scores = _positive(pairs.scores(slots, x))
        return Ranked(scores, "pairs", len(known), None, reasons, pairs.likeness)

    def _from_server(self, done: Done) -> Ranked | str:
        if self._server is None:
            return "this edge does not ask the workers"
        if not done.device:
            return "the user has no account yet"
        try:
            items = [str(item) for item in self._server(done.device, MOST)]
        except UserError as error:
            return str(error)
        places = [self._index.find(item) or NOWHERE for item in items]
        falling = -np.arange(len(places), dtype=np.float64)
        scores = Scores(np.array(places, np.intp), falling, falling=True)
        return Ranked(scores, "server") if places else "the workers know no items"


def _positive(found: Scores) -> Scores:
    """Return the items with a score above 0."""
    kept = found.scores > 0
    return Scores(found.places[kept], found.scores[kept])


def _is_liked(row: RatedItem) -> bool:
    return row.stars is None or row.stars >= LIKED_STARS
