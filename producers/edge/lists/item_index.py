"""The numbers of items: every item that the edge has met, in its catalogue, its feedback or a
public table, has a place. The index only grows: an item keeps its place, so that arrays of
different ages agree.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from producers.edge.lists.stored_history import named

Places = NDArray[np.intp]
NOWHERE = 0
"""The place of an item whose id the edge does not know: it is in no list."""


class ItemIndex:
    """Numbers items from 1, from any thread."""

    def __init__(self) -> None:
        self.texts = [""]
        self._places: dict[str, int] = {}
        self._by_key: dict[int, int] = {}
        self._adding = threading.Lock()

    def __len__(self) -> int:
        return len(self.texts)

    def find(self, text: str) -> int | None:
        """Return the place of an item, None for one that was never met."""
        return self._places.get(text)

    def find_key(self, key: int) -> int | None:
        """Return the place of the item with this key on the wire."""
        return self._by_key.get(key)

    def place(self, text: str) -> int:
        """Return the place of an item, a new one if it was never met."""
        found = self._places.get(text)
        return self._add(text) if found is None else found

    def places(self, texts: Iterable[str]) -> Places:
        """Return the places of items that were met; the others are left out."""
        found = (self._places.get(text) for text in texts)
        return np.array([place for place in found if place is not None], np.intp)

    def _add(self, text: str) -> int:
        key = named(text)[1]
        with self._adding:
            if text in self._places:
                return self._places[text]
            place = len(self.texts)
            self.texts.append(text)
            self._by_key[key] = place
            self._places[text] = place
            return place
