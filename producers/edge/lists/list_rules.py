"""Which items a list may hold: a mask over the items, made once for a filter and a catalogue.

    offered    in the catalogue, available and not hidden; while the catalogue is empty, any item
    filtered   offered, and the filter allows it
    blocked    seen by the user, excluded by the wish, or withdrawn from the public table

A mask is filled where it is asked for: three states an item, so that a filter over 100,000 items
costs a list only the items that it looks at. A later version of the catalogue begins new ones: an
item that is hidden or removed is in no list from then on.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from producers.edge.catalogue.filters import Filter
from producers.edge.catalogue.site_catalogue import Catalogue, ItemRow, Snapshot
from producers.edge.lists.item_index import ItemIndex, Places

_UNKNOWN = -1
_MOST_MASKS = 256


class Allowed:
    """What one filter allows of one snapshot of the catalogue."""

    def __init__(self, snapshot: Snapshot, index: ItemIndex, only: Filter | None) -> None:
        self.snapshot, self._index, self._only = snapshot, index, only
        self._anything = not snapshot.rows and only is None
        self._states = np.full(len(index), _UNKNOWN, np.int8)

    def passing(self, places: Places) -> NDArray[np.bool_]:
        """Return whether each item may be offered."""
        states = self._grown()
        found = states[places]
        if (found == _UNKNOWN).any():
            texts, rows = self._index.texts, self.snapshot.rows
            for place in places[found == _UNKNOWN].tolist():
                states[place] = self._passes(texts[place], rows.get(texts[place]))
            found = states[places]
        return np.asarray(found == 1)

    def text(self, place: int) -> str:
        """Return the id of an item."""
        return self._index.texts[place]

    def row(self, place: int) -> ItemRow | None:
        """Return what the catalogue says of an item."""
        return self.snapshot.rows.get(self._index.texts[place])

    def categories(self, place: int) -> Sequence[str]:
        """Return the categories of an item."""
        row = self.row(place)
        return () if row is None else row.categories

    def _passes(self, text: str, row: ItemRow | None) -> bool:
        if row is None:
            return self._anything and text not in self.snapshot.away
        shown = row.available and not row.hidden
        return shown and (self._only is None or self._only.allows(row))

    def _grown(self) -> NDArray[np.int8]:
        """Return the states of all items of the index; what another thread finds meanwhile may be
        found again."""
        states, items = self._states, len(self._index)
        if len(states) < items:
            more = np.full(items - len(states), _UNKNOWN, np.int8)
            states = self._states = np.concatenate((states, more))
        return states


class Masks:
    """The masks of the newest catalogue, by filter; the ones used last are kept."""

    def __init__(self, catalogue: Catalogue, index: ItemIndex) -> None:
        self._catalogue, self._index = catalogue, index
        self._version: int | None = None
        self._kept: OrderedDict[Filter | None, Allowed] = OrderedDict()
        self._choosing = threading.Lock()

    def newest(self, only: Filter | None) -> Allowed:
        """Return the mask of a filter over the catalogue as it is now."""
        snapshot = self._catalogue.snapshot()
        with self._choosing:
            if snapshot.version != self._version:
                self._kept.clear()
                self._version = snapshot.version
            if only not in self._kept:
                self._kept[only] = Allowed(snapshot, self._index, only)
                if len(self._kept) > _MOST_MASKS:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(only)
            return self._kept[only]
