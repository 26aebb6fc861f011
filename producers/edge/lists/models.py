"""The models of an edge: each ranks for what a user has done, or says why it cannot.

    local    the public table and the clean history, as on a device      (`producers.ranking`)
    server   what the workers answer for the pseudonym, best first; asked only where it is set up
    own      what the edge's own users like together                   (`own_feedback.py`)
    popular  the edge's own, of all time and lately                       (`own_feedback.py`)
             both for visitors only as far as enough people stand behind it
    latest   by when they came into the catalogue; while it is empty, those that were met last

None but `server` sends anything, and it sends a pseudonym. A thread renews what they rank by every
second; a change of the catalogue that takes an item down is seen at once (`picking.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from producers.edge.catalogue.site_catalogue import Catalogue, ItemRow
from producers.edge.lists.item_index import NOWHERE, ItemIndex
from producers.edge.lists.newest_tables import PublicTables, Repeating, Shelf
from producers.edge.lists.own_feedback import NEW_DAYS, Own, OwnFeedback
from producers.edge.lists.picking import Ranked, by_score
from producers.edge.lists.stored_history import Done
from producers.edge.lists.wishes import MOST
from producers.edge.store.database import Database
from producers.edge.store.store_tables import DELETIONS
from producers.ranking.local_recommender import LocalRecommender
from stream_app import wire
from stream_app.errors import UserError

RENEW_SECONDS, ANEW_SECONDS = 1.0, 3600.0
MOST_NEW = 2048
_PAUSE_SECONDS, _MANY = 0.001, 2000
_MOST_NEAR = 2048  # popular items, and new ones, that share a category with another
_DAY_MS = 86_400_000
_NOTHING = np.zeros(0, np.intp)
_BARE = Own(), Own(shown=np.zeros(0, np.bool_))

AskWorkers = Callable[[bytes, int], Sequence[wire.Item]]
"""The pseudonym and how many -> items, best first; UserError where they do not answer."""


class Models(Repeating):
    """Every model over one index, which the thread alone adds to."""

    def __init__(
        self,
        database: Database,
        catalogue: Catalogue,
        index: ItemIndex,
        tables: PublicTables,
        server: AskWorkers | None,
        now: Callable[[], float],
        least_people: int,
    ) -> None:
        super().__init__("lists", RENEW_SECONDS)
        self._catalogue, self._index, self._tables = catalogue, index, tables
        self._server, self._now, self._whole = server, now, now()
        self._database, self.feedback = database, OwnFeedback(database, index, least_people)
        self.latest, self._new = Ranked(_NOTHING, np.zeros(0), "latest"), _NOTHING
        self._own: tuple[bytes | None, tuple[Own, Own]] = (None, _BARE)
        self.shelf: Shelf | None = None
        self._shelved: tuple[LocalRecommender | None, int] = (None, 0)
        self._listed = (-1, -1)

    def step(self, *, anew: bool = False) -> None:
        """Read what is new, or count all of it anew."""
        now_ms = int(1000 * self._now())
        self._list(now_ms)
        with self._database.reading() as connection:
            deletions = self._database.tag(connection, DELETIONS)
        anew |= self.feedback.deletions not in (None, deletions)
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
        whole, shown = (self.feedback.own(self._new, visitor=each) for each in (False, True))
        self._own = self.feedback.deletions, (whole, shown)

    def own(self, deletions: bytes, *, visitor: bool) -> Own:
        """Return what a list shows of the edge's own feedback, to a visitor or a known user, when
        the store has this tag of deletions: nothing where it was counted before the last one."""
        counted, found = self._own
        return (found if counted == deletions else _BARE)[visitor]

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
        self._new = self.latest.places[:MOST_NEW][newest]

    def ranked(self, model: str, done: Done, own: Own, *, now: bool = False) -> Ranked | str:
        """Return what a model ranks for what was done, or why it does not."""
        if model == "local":
            shelf = self.shelf
            return shelf.ranked(done, now=now) if shelf else self._without_table()
        if model == "own":
            found = own.shelf.ranked(done) if own.shelf else None
            people = "nobody of the site has" if own.shown is None else "too few of the site have"
            unknown = f"{people} liked an item of the history"
            return found if found is not None and found.known else unknown
        if model == "server":
            return self._from_server(done)
        if model == "popular":
            return own.popular if len(own.popular.places) else "no likes yet"
        latest, (_, met) = self.latest, self._listed
        if met and own.shown is not None:  # a place tells how many items lie before it
            latest = latest._replace(scores=np.zeros(len(latest.places)))
        return latest if len(latest.places) else "no items yet"

    def near(self, model: str, item: str, own: Own) -> Ranked | str:
        """Return the items that go with one by a model, "local" or "own", or why there are none."""
        shelf = self.shelf if model == "local" else own.shelf
        found = shelf.near(self._index.find(item), item) if shelf else None
        if found is not None:
            return found
        if model == "own":
            return "too few of the site have liked the item"
        return "the item is not in the public table" if shelf else self._without_table()

    def of_categories(self, row: Callable[[int], ItemRow], item: str, own: Own) -> Ranked | str:
        """Return popular and new items by the share of categories that they have in common with
        one; row: what the catalogue says of a place."""
        wanted = set(row(self._index.find(item) or NOWHERE).categories)
        if not wanted:
            return "the item has no category"
        first = (own.popular.places[:_MOST_NEAR], self.latest.places[:_MOST_NEAR])
        # Not by place, which tells what events named before the catalogue did.
        places = np.array(list(dict.fromkeys(np.concatenate(first).tolist())), np.intp)
        both = [set(row(place).categories) for place in places.tolist()]
        alike = np.array([len(wanted & each) / len(wanted | each) for each in both])
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
