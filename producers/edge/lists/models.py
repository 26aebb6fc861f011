"""The models of an edge: each ranks for what a user has done, or says why it cannot.

    local    the public table and the clean history, as on a device      (`producers.ranking`)
    server   what the workers answer for the pseudonym, best first; asked only where it is set up
    own      what the edge's own users like together                   (`own_feedback.py`)
    popular  the edge's own, of all time and lately                       (`own_feedback.py`)
    latest   by when they came into the catalogue; while it is empty, those that were met last

None but `server` sends anything, and it sends a pseudonym. A thread renews what they rank by every
second; a change of the catalogue that takes an item down is seen at once (`list_rules.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from producers.edge.catalogue.site_catalogue import Catalogue, ItemRow
from producers.edge.lists.item_index import NOWHERE, ItemIndex, Places
from producers.edge.lists.newest_tables import PublicTables, Repeating
from producers.edge.lists.own_feedback import NEW_DAYS, OwnFeedback
from producers.edge.lists.picking import Ranked, by_score
from producers.edge.lists.shelf import Shelf
from producers.edge.lists.stored_history import Done
from producers.edge.lists.wishes import MOST
from producers.edge.store.database import Database
from producers.ranking.local_recommender import LocalRecommender
from stream_app import wire
from stream_app.errors import UserError

RENEW_SECONDS, ANEW_SECONDS = 1.0, 3600.0
MOST_NEW = 2048
_PAUSE_SECONDS, _MANY = 0.001, 2000
_MOST_NEAR = 2048  # popular items, and new ones, that share a category with another
_DAY_MS = 86_400_000
_NOTHING = np.zeros(0, np.intp)

AskWorkers = Callable[[bytes, int], Sequence[wire.Item]]
"""The pseudonym and how many -> items, best first; UserError where they do not answer."""


class Models(Repeating):
    """Every model over one index, which the thread alone adds to. `new`: places of items to
    explore, and the parameters of their chances (`OwnFeedback.chances`)."""

    def __init__(
        self,
        database: Database,
        catalogue: Catalogue,
        index: ItemIndex,
        tables: PublicTables,
        server: AskWorkers | None,
        now: Callable[[], float],
    ) -> None:
        super().__init__("lists", RENEW_SECONDS)
        self._catalogue, self._index, self._tables = catalogue, index, tables
        self._server, self._now, self._whole = server, now, now()
        self.feedback = OwnFeedback(database, index)
        self.latest = Ranked(_NOTHING, np.zeros(0), "latest")
        self.new: tuple[Places, Any, Any] = (_NOTHING, np.zeros(0), np.zeros(0))
        self.shelf: Shelf | None = None
        self._shelved: tuple[LocalRecommender | None, int] = (None, 0)
        self._listed = (-1, -1)

    def step(self, *, anew: bool = False) -> None:
        """Read what is new, or count all of it anew."""
        now_ms = int(1000 * self._now())
        self._list(now_ms)
        if anew or self._now() - self._whole >= ANEW_SECONDS:
            self.feedback = self.feedback.anew(now_ms, self._breathe)
            self._whole = self._now()
        else:
            self.feedback.read(now_ms, self._breathe)
        local, met = self._tables.ranker, len(self._index)
        nameless = self.shelf is not None and (self.shelf.places == NOWHERE).any()
        if local is not self._shelved[0] or (nameless and met > self._shelved[1]):
            self.shelf = None if local is None else Shelf.public(local, self._index)
            self._shelved = (local, len(self._index))
        self._list(now_ms)

    def _list(self, now_ms: int) -> None:
        """Order the items of the catalogue, or without one those that were met, by time."""
        snapshot = self._catalogue.snapshot()
        listed = (snapshot.version, 0 if snapshot.rows else len(self._index))
        if listed != self._listed:
            met = np.arange(len(self._index) - 1, 0, -1)
            places, added = met, met.astype(np.float64)
            if rows := list(snapshot.rows.values()):
                places, added = np.empty(len(rows), np.intp), np.empty(len(rows))
            for n, row in enumerate(rows):
                places[n], added[n] = self._index.place(row.item), row.added
                if n % _MANY == _MANY - 1:
                    self._breathe()
            self.latest, self._listed = by_score(places, added, "latest"), listed
        since = now_ms - NEW_DAYS * _DAY_MS if snapshot.rows else np.inf
        newest = self.latest.scores[:MOST_NEW] >= since
        places = self.latest.places[:MOST_NEW][newest]
        self.new = (places, *self.feedback.chances(places))

    def ranked(self, model: str, done: Done, *, now: bool = False) -> Ranked | str:
        """Return what a model ranks for what was done, or why it does not."""
        if model == "local":
            shelf = self.shelf
            return shelf.ranked(done, now=now) if shelf else self._without_table()
        if model == "own":
            shelf = self.feedback.shelf
            found = shelf.ranked(done) if shelf else None
            unknown = "nobody of the site has liked an item of the history"
            return found if found is not None and found.known else unknown
        if model == "server":
            return self._from_server(done)
        if model == "popular":
            return self.feedback.popular if len(self.feedback.popular.places) else "no likes yet"
        return self.latest if len(self.latest.places) else "no items yet"

    def near(self, model: str, item: str) -> Ranked | str:
        """Return the items that go with one by a model, "local" or "own", or why there are none."""
        shelf = self.shelf if model == "local" else self.feedback.shelf
        found = shelf.near(self._index.find(item), item) if shelf else None
        if found is not None:
            return found
        if model == "own":
            return "nobody of the site has liked the item"
        return "the item is not in the public table" if shelf else self._without_table()

    def of_categories(self, row: Callable[[int], ItemRow], item: str) -> Ranked | str:
        """Return popular and new items by the share of categories that they have in common with
        one; row: what the catalogue says of a place."""
        own = set(row(self._index.find(item) or NOWHERE).categories)
        if not own:
            return "the item has no category"
        first = (self.feedback.popular.places[:_MOST_NEAR], self.latest.places[:_MOST_NEAR])
        places = np.unique(np.concatenate(first))
        both = [set(row(place).categories) for place in places.tolist()]
        alike = np.array([len(own & each) / len(own | each) for each in both])
        return by_score(places[alike > 0], alike[alike > 0], "categories", 1)

    def _from_server(self, done: Done) -> Ranked | str:
        if self._server is None:
            return "this edge does not ask the workers"
        if not done.device:
            return "the user has no account yet"
        try:
            items = self._server(done.device, MOST)
        except UserError as error:
            return str(error)
        places = self._index.places(map(wire.key_of, items))
        return Ranked(places, -np.arange(float(len(places))), "server")

    def _without_table(self) -> str:
        return self._tables.problem or "the public table was read just now"

    def _breathe(self) -> None:
        self._thread.wait(_PAUSE_SECONDS)
