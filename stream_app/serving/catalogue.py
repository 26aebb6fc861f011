"""The public catalogue: what is shown of items, and which are withdrawn.

It is read from the compacted topic `items` and is not part of the replicated state: it affects
answers only, never the model. An item known only by the hash of its string id and missing from the
catalogue is `Unlisted`, shown as `key:` and 16 hex characters.

One thread updates while another reads. A read sees each record wholly or not at all, and an update
takes constant time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stream_app.wire import (
    CatalogueEntry,
    Listed,
    Reason,
    WireError,
    decode_catalogue_entry,
    json_bytes,
    key,
    unlisted,
)
from stream_app.wire.messages import key_named

_STRING = 1 << 63
_UNLISTED_BYTES = json_bytes(unlisted(_STRING))  # as long as a number or longer
_UNKNOWN = CatalogueEntry(0)  # what is known of an item without an entry


def _text_bytes(entry: CatalogueEntry) -> int:
    return sum(map(json_bytes, (entry.title, entry.genres, entry.year)))


@dataclass
class Catalogue:
    """Entries by item key; `learn` takes the records of the topic in log order.

    read: whether all that the topic held at the start has been read. rejected: how many records,
    by reason. longest_name, longest_title, longest_text: the most bytes
    of an id, of a title, and of a title with genres and year, in JSON, so far; of an entry
    that is removed or replaced too, so that replies do not become shorter.
    """

    entries: dict[int, CatalogueEntry] = field(default_factory=dict)
    read: bool = False
    rejected: Counter[Reason] = field(default_factory=Counter)
    longest_name: int = _UNLISTED_BYTES
    longest_title: int = len("null")
    longest_text: int = _text_bytes(_UNKNOWN)
    _gone: set[int] = field(default_factory=set)
    _changes: int = 0
    # Built from `_gone` on demand: the number of changes included, and the keys in order
    _sorted: tuple[int, NDArray[np.uint64]] = field(
        default_factory=lambda: (0, np.empty(0, np.uint64))
    )

    def learn(self, record_key: bytes | None, value: bytes | None) -> None:
        """Apply one record; an empty value (a tombstone) removes the entry named by its key."""
        if not value:
            self._forget(record_key)
            return
        try:
            entry = decode_catalogue_entry(record_key, value)
        except WireError as error:
            self.rejected[error.reason] += 1
            return
        item = key(entry.item)
        self.longest_name = max(self.longest_name, json_bytes(entry.item))
        self.longest_title = max(self.longest_title, json_bytes(entry.title))
        self.longest_text = max(self.longest_text, _text_bytes(entry))
        self.entries[item] = entry  # last: a reply that shows it has room for it
        self._withdraw(item, entry.withdrawn)

    def _forget(self, record_key: bytes | None) -> None:
        item = key_named(record_key)
        entry = None if item is None else self.entries.get(item)
        if item is not None and entry is not None and str(entry.item).encode() == record_key:
            del self.entries[item]
            self._withdraw(item, False)

    def _withdraw(self, item: int, withdrawn: bool) -> None:
        if withdrawn == (item in self._gone):
            return
        if withdrawn:
            self._gone.add(item)
        else:
            self._gone.discard(item)
        self._changes += 1

    def withdrawn(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return which of the item keys (n,) must not be recommended."""
        seen, gone = self._sorted
        changes = self._changes
        if seen != changes:
            # The count is read before the set, so a change in between only causes another update;
            # copying a set is one step that no other thread interrupts.
            gone = np.sort(np.array(list(self._gone), np.uint64))
            self._sorted = changes, gone
        if not len(gone):
            return np.zeros(len(keys), np.bool_)
        places = np.minimum(np.searchsorted(gone, keys), len(gone) - 1)
        found: NDArray[np.bool_] = gone[places] == keys
        return found

    def name(self, item: int) -> Listed:
        """Return the id of an item as published."""
        entry = self.entries.get(item)
        return entry.item if entry else unlisted(item)

    def entry(self, item: int) -> CatalogueEntry:
        """Return what was published of an item; an empty title and no genres and year where
        nothing was."""
        return self.entries.get(item, _UNKNOWN)

    def title(self, item: int) -> str:
        """Return the title of an item, empty where none was published."""
        return self.entry(item).title
