"""The newest public table, read by a thread of its own: what the model "local" ranks by.

    topic or cache  --every 30 s-->  LocalRecommender, or the reason that there is none

A table that cannot be read leaves the last one in place. What is read is the same for every user,
and nothing is sent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from producers.edge.lists.item_index import NOWHERE, ItemIndex, Places
from producers.ranking.campaign_ranker import CampaignRanker
from producers.ranking.kinds import By, chosen
from producers.ranking.local_recommender import LocalRecommender
from producers.ranking.published import Source
from producers.ranking.ranker import Ranker
from stream_app.errors import UserError

READ_SECONDS = 30.0
_TEXT = 1 << 63  # keys of text are above


class Repeating:
    """Runs a step again and again in a daemon thread, so many seconds after its last end. `fail` is
    called with what a step raises; a UserError does not end the thread."""

    def __init__(
        self,
        name: str,
        step: Callable[[], object],
        seconds: float,
        fail: Callable[[BaseException], object],
    ) -> None:
        self._step, self._seconds, self._fail = step, seconds, fail
        self._ended, self._woken = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"murmurec-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Begin the next step now."""
        self._woken.set()

    def pause(self, seconds: float) -> bool:
        """Let other threads go; return whether the thread is to end."""
        return self._ended.wait(seconds)

    def stop(self, seconds: float = 10.0) -> None:
        """Let the thread end after its step, and wait so long at most."""
        self._ended.set()
        self._woken.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._woken.clear()
            if self._ended.is_set():  # stopped just before
                return
            try:
                self._step()
            except UserError as error:
                self._fail(error)
            except BaseException as error:
                self._fail(error)
                raise
            self._woken.wait(self._seconds)


class PublicTables:
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
        self._source, self._by, self._mode = source, by, privacy_mode
        self.ranker: LocalRecommender | None = None
        self.problem = "no public table was read yet"
        self._thread = Repeating("public-tables", self.read, seconds, self._failed)

    def read(self) -> None:
        """Read the newest table now; UserError with the reason, and the last one stays."""
        found = chosen(self._source(), self._by, self._mode)
        self.ranker = LocalRecommender(found.table, found.reason)
        self.problem = found.table.problem

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._thread.stop()

    def _failed(self, error: BaseException) -> None:
        self.problem = str(error) if isinstance(error, UserError) else type(error).__name__


class Shelf:
    """The items of a table among those of the edge: `places` (n,) in the index, in the order of the
    table; `withdrawn` (m,): those that the public catalogue withdraws; `met`: the size of the index
    then, and whether one `is_nameless`.

    The table names items by key; an id is text of the edge's own catalogue or feedback, of the
    public catalogue, or the number itself. An item without an id is at `NOWHERE`, in no list.
    """

    def __init__(self, local: LocalRecommender, index: ItemIndex) -> None:
        self.local = local
        assert isinstance(local.ranker, Ranker | CampaignRanker)  # an edge takes no other table
        self.ranker = local.ranker
        self.as_of = local.ranker.side.version if isinstance(local.ranker, Ranker) else None
        keys = local.table.side.keys.tolist()
        self.places = np.array([self._place(key, index) for key in keys], np.intp)
        self.met, self.is_nameless = len(index), bool((self.places == NOWHERE).any())
        found = [index.find_key(key) for key in local.withdrawn.tolist()]
        self.withdrawn = np.array([place for place in found if place is not None], np.intp)
        self._slots = {place: slot for slot, place in enumerate(self.places.tolist())}

    def slot(self, place: int | None) -> int | None:
        """Return the slot of an item, None for one that is not in the table."""
        return None if place in (None, NOWHERE) else self._slots.get(place)

    def slots(self, places: Places) -> NDArray[np.intp]:
        """Return the slots of items of the table."""
        return np.array([self._slots[place] for place in places.tolist()], np.intp)

    def title(self, place: int) -> str:
        """Return the title of an item by the public catalogue, or empty."""
        slot = self._slots.get(place)
        if slot is None:
            return ""
        return self.local.table.title(int(self.local.table.side.keys[slot])) or ""

    def likeness(self, places: Places) -> NDArray[np.floating] | None:
        """Return how alike items are, (c, c) up to 1: the cosine of their factors, or the larger of
        the two links; None where the table has neither."""
        if not isinstance(self.ranker, Ranker):
            return None
        side, slots = self.ranker.side, self.slots(places)
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

    def _place(self, key: int, index: ItemIndex) -> int:
        found = index.find_key(key)
        if found is not None:
            return found
        item = self.local.item(key)
        if key >= _TEXT and str(item).startswith("key:"):
            return NOWHERE
        return index.place(str(item))
