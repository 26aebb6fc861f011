"""The numbers of items: every item that the edge has met, in its catalogue, its feedback or a
public table, has a place. The index only grows: an item keeps its place, so that arrays of
different ages agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from stream_app import wire

Places = NDArray[np.intp]
NOWHERE = 0
"""The place of an item whose id the edge does not know: it is in no list."""


class ItemIndex:
    """Numbers items from 1; one thread adds some, and any thread looks them up.

    `find`, `find_key`: the place of an item by its text, or by its key on the wire; None for one
    that was never met.
    """

    def __init__(self) -> None:
        self.texts, self.keys = [""], [0]
        self._places, by_key = dict[str, int](), dict[int, int]()
        self.find, self.find_key, self._by_key = self._places.get, by_key.get, by_key

    def __len__(self) -> int:
        return len(self.keys)

    def place(self, text: str) -> int:
        """Return the place of an item, a new one if it was never met."""
        found = self._places.get(text)
        if found is None:
            key, found = named(text)[1], len(self.texts)
            self.texts.append(text)
            self.keys.append(key)
            self._places[text] = self._by_key[key] = found
        return found

    def places(self, keys: Iterable[int]) -> Places:
        """Return the places of items that were met, by their keys; the others are left out."""
        found = map(self.find_key, keys)
        return np.array([place for place in found if place is not None], np.intp)


@lru_cache(maxsize=200_000)
def named(text: str) -> tuple[wire.Item, int]:
    """Return an item on the wire and its key, from its text in the store."""
    item = wire.parse_item(text)
    return item, wire.key(item)
