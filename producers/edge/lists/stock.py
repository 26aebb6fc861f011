"""What lists read and a thread renews every few seconds: statistics, the newest items, new ones.

Between two renewals a list still sees a change of the catalogue that takes an item down
(`rules.py`): what is renewed is which items there are to look at. While the catalogue is empty, the
newest items are those that were met last.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from producers.edge.catalogue.site_catalogue import Catalogue, Snapshot
from producers.edge.lists.item_index import ItemIndex
from producers.edge.lists.models import Models
from producers.edge.lists.newest_tables import Repeating
from producers.edge.lists.own_feedback import NEW_DAYS
from producers.edge.lists.picking import NOTHING, NewItems, Scores

RENEW_SECONDS, ANEW_SECONDS = 3.0, 3600.0
MOST_NEW = 2048
_PAUSE_SECONDS, _MANY = 0.001, 2000
_DAY_MS = 86_400_000


class Stock:
    """Keeps `models` and `new` up to date, from one thread; `problem`: why it could not."""

    def __init__(
        self,
        catalogue: Catalogue,
        index: ItemIndex,
        models: Models,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._catalogue, self._index, self._models, self._now = catalogue, index, models, now
        self.new: NewItems = NOTHING
        self.problem = ""
        self._seen, self._catalogued = (-1, -1), False
        self._whole = now()
        self._thread = Repeating("lists", self.renew, RENEW_SECONDS, self._failed)

    def start(self) -> None:
        """Renew in a thread from now on."""
        self._thread.start()

    def wake(self) -> None:
        """Renew now: the catalogue has other items."""
        self._thread.wake()

    def stop(self) -> None:
        """End the thread."""
        self._thread.stop()

    def renew(self, *, anew: bool = False) -> None:
        """Read what is new, or count all of it anew."""
        now_ms, models = int(1000 * self._now()), self._models
        self._list()
        if anew or self._now() - self._whole >= ANEW_SECONDS:
            models.feedback = models.feedback.anew(now_ms, self._breathe)
            self._whole = self._now()
        else:
            models.feedback.read(now_ms, self._breathe)
        self._list()
        models.renew_shelf()
        self._renew_new(now_ms)
        self.problem = ""

    def _list(self) -> None:
        """Order the items of the catalogue, or without one those that were met, by time."""
        snapshot = self._catalogue.snapshot()
        catalogued = bool(snapshot.rows)
        seen = (snapshot.version, 0 if catalogued else len(self._index))
        if seen != self._seen:
            self._models.latest = self._latest(snapshot)
            self._seen, self._catalogued = seen, catalogued

    def _latest(self, snapshot: Snapshot) -> Scores:
        if not snapshot.rows:
            places = np.arange(len(self._index) - 1, 0, -1)
            return Scores(places, places.astype(np.float64), falling=True)
        places, added = np.empty(len(snapshot.rows), np.intp), np.empty(len(snapshot.rows))
        for n, row in enumerate(snapshot.rows.values()):
            places[n], added[n] = self._index.place(row.item), row.added
            if n % _MANY == _MANY - 1:
                self._breathe()
        order = np.argsort(-added, kind="stable")
        return Scores(places[order], added[order], falling=True)

    def _renew_new(self, now_ms: int) -> None:
        places, added, _ = self._models.latest
        until = int(np.searchsorted(-added, -(now_ms - NEW_DAYS * _DAY_MS)))
        places = places[: min(until, MOST_NEW) if self._catalogued else 0]
        self.new = NewItems(places, *self._models.feedback.new_items(places))

    def _breathe(self) -> None:
        self._thread.pause(_PAUSE_SECONDS)

    def _failed(self, error: BaseException) -> None:
        self.problem = str(error) or type(error).__name__
