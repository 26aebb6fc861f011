"""The newest public table, read by a thread of its own: what the model "local" ranks by.

    topic or cache  --every 30 s-->  LocalRecommender, or the reason that there is none

A table that cannot be read leaves the last one in place. What is read is the same for every user,
and nothing is sent.

A shelf has the items of the table, or of the edge's own pairs, among those of the edge. The table
names items by key; an id is text of the edge's own catalogue or feedback, of the public catalogue,
or the number itself. An item without an id is at `NOWHERE`, in no list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from producers.edge.lists.item_index import NOWHERE, ItemIndex, Places, named
from producers.edge.lists.picking import Ranked, by_score
from producers.edge.lists.stored_history import Done
from producers.ranking.campaign_ranker import CampaignRanker
from producers.ranking.clean_history import RatedItem
from producers.ranking.kinds import By, chosen
from producers.ranking.local_recommender import LocalRecommender
from producers.ranking.published import Source
from producers.ranking.ranker import Ranker
from stream_app.errors import UserError
from stream_app.kafka.background_thread import BackgroundThread

READ_SECONDS = 30.0


class Repeating:
    """Calls `step` again so many seconds after its last end. A UserError of it stands in `problem`
    until the next step; anything else does, too, and ends the thread."""

    problem = ""

    def __init__(self, name: str, seconds: float) -> None:
        self._seconds = seconds
        self._thread = BackgroundThread(name, self._repeat, self._failed)

    def step(self) -> None:
        """Do the work once."""
        raise NotImplementedError

    def start(self) -> None:
        """Repeat the step in a thread from now on."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after its step, or wait ten seconds."""
        self._thread.end()
        self._thread.join(10.0)

    def _repeat(self) -> None:
        while not self._thread.ended:
            try:
                self.step()
            except UserError as error:
                self.problem = str(error)
            self._thread.wait(self._seconds)

    def _failed(self, reason: BaseException) -> None:
        self.problem = type(reason).__name__
        raise reason


class PublicTables(Repeating):
    """The newest table: `ranker`, None before the first, and `problem`, empty while all is well.

    source: gives the deployment that is read, at each read. by, privacy_mode: which table
    (`producers.ranking.kinds.chosen`).
    """

    def __init__(
        self,
        source: Callable[[], Source],
        by: By | None = None,
        privacy_mode: str = "local",
        seconds: float = READ_SECONDS,
    ) -> None:
        super().__init__("public-tables", seconds)
        self._source, self._by, self._mode = source, by, privacy_mode
        self.ranker: LocalRecommender | None = None
        self.problem = "no public table was read yet"

    def step(self) -> None:
        """Read the newest table; UserError with the reason, and the last one stays."""
        found = chosen(self._source(), self._by, self._mode)
        self.ranker = LocalRecommender(found.table, found.reason)
        self.problem = found.table.problem


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
