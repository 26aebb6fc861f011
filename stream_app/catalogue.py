"""The public catalogue as the server knows it: names, titles, and what was withdrawn.

It is read from the compacted topic `items` and is not part of the replicated state: it changes
what is
shown, never what was learned. An item that only ever came as a string's hash and is not in the
catalogue is
shown as `key:` and 16 hex characters.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stream_app.wire import CatalogueEntry, Item, WireError, decode_message, key

_STRING = 1 << 63


@dataclass
class Catalogue:
    """Entries by item key; `learn` takes the records of the topic in their order."""

    entries: dict[int, CatalogueEntry] = field(default_factory=dict)
    set_aside: int = 0
    _withdrawn: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))

    def learn(self, record_key: bytes | None, value: bytes | None) -> None:
        """Take one record; an empty value (a tombstone) forgets the entry its key names."""
        try:
            if not value:
                self._forget(record_key)
            else:
                entry = decode_message(CatalogueEntry, value)
                self.entries[key(entry.item)] = entry
        except (WireError, ValueError):
            self.set_aside += 1
            return
        gone = [k for k, entry in self.entries.items() if entry.withdrawn]
        self._withdrawn = np.array(gone, np.uint64)

    def _forget(self, record_key: bytes | None) -> None:
        name = (record_key or b"").decode(errors="replace")
        for k, entry in list(self.entries.items()):
            if str(entry.item) == name:
                del self.entries[k]

    def withdrawn(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return which of the item keys (n,) must not be recommended."""
        return np.isin(keys, self._withdrawn) if len(self._withdrawn) else np.zeros(len(keys), bool)

    def name(self, item: int) -> Item:
        """Return the id of an item as people wrote it."""
        if item < _STRING:
            return item
        entry = self.entries.get(item)
        return entry.item if entry else f"key:{item:016x}"

    def title(self, item: int) -> str:
        """Return the title of an item, empty where none was published."""
        entry = self.entries.get(item)
        return entry.title if entry else ""
