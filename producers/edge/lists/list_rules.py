"""Which items a list may hold: a mask over the items, made once for a filter and a catalogue.

    offered    in the catalogue, available and not hidden; while the catalogue is empty, any item
    filtered   offered, and the filter allows it

A mask is filled where it is asked for: three states an item, so that a filter over 100,000 items
costs a list only the items that it looks at. A later version of the catalogue begins new ones: an
item that is hidden or removed is in no list from then on.
"""

from __future__ import annotations

import threading

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
        self.snapshot, self._texts, self._only = snapshot, index.texts, only
        self._states = np.full(len(index), _UNKNOWN, np.int8)

    def passing(self, places: Places) -> NDArray[np.bool_]:
        """Return whether each item may be offered; what another thread finds meanwhile may be found
        again."""
        states, items = self._states, len(self._texts)
        if len(states) < items:
            more = np.full(items - len(states), _UNKNOWN, np.int8)
            states = self._states = np.concatenate((states, more))
        found = states[places]
        if (found == _UNKNOWN).any():
            for place in places[found == _UNKNOWN].tolist():
                states[place] = self._passes(self._texts[place])
            found = states[places]
        return np.asarray(found == 1)

    def row(self, place: int) -> ItemRow:
        """Return what the catalogue says of an item, an empty row where it has none."""
        text = self._texts[place]
        return self.snapshot.rows.get(text) or ItemRow(item=text)

    def _passes(self, text: str) -> bool:
        rows, row = self.snapshot.rows, self.snapshot.rows.get(text)
        if row is None:
            return not rows and self._only is None and text not in self.snapshot.away
        return row.available and not row.hidden and (self._only is None or self._only.allows(row))


class Masks:
    """The masks of the newest catalogue, by filter."""

    def __init__(self, catalogue: Catalogue, index: ItemIndex) -> None:
        self._catalogue, self._index = catalogue, index
        self._version, self._choosing = -1, threading.Lock()
        self._kept: dict[Filter | None, Allowed] = {}

    def newest(self, only: Filter | None) -> Allowed:
        """Return the mask of a filter over the catalogue as it is now."""
        with self._choosing:
            snapshot = self._catalogue.snapshot()
            if snapshot.version != self._version or len(self._kept) >= _MOST_MASKS:
                self._kept, self._version = {}, snapshot.version
            if only not in self._kept:
                self._kept[only] = Allowed(snapshot, self._index, only)
            return self._kept[only]
