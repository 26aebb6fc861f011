"""The entries of the catalogue that a gateway serves, within bounds of number and of bytes.

    order    items of the item side, most popular first; then the others as the topic has them

A catalogue may have millions of entries, and a page needs those that a visitor is likely to know.
An entry is kept as the JSON in which it is served. Beyond the bounds only the key of an item is
kept; the entries of the item side are kept in any case (4,096 at most).
"""

from __future__ import annotations

from itertools import islice

import msgspec
import numpy as np

from stream_app.gateway.contract.bodies import CatalogueItem, exact
from stream_app.ranking.item_side import ItemSide
from stream_app.wire import WireError, decode_catalogue_entry, key, unlisted
from stream_app.wire.messages import json_bytes, key_named

MOST_ENTRIES = 50_000
MOST_BYTES = 32 << 20
MOST_KEYS = 1_000_000
_STRING = 1 << 63


class ServedCatalogue:
    """Learns the records of the topic in their order; use it in one thread, `row` in any.

    longest_name, longest_title, longest_text: the most bytes of an id, of a title, and of a title
    with genres and year, in JSON, so far; of an entry that is removed or replaced too, so that
    pages do not become shorter.
    """

    def __init__(self, most_entries: int = MOST_ENTRIES, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._most_bytes = most_entries, most_bytes
        self._side = np.empty(0, np.uint64)  # most popular first
        self._wanted: frozenset[int] = frozenset()
        self.longest_name = json_bytes(unlisted(_STRING))  # as long as a number or longer
        self.longest_title = json_bytes(None)
        self.longest_text = sum(map(json_bytes, ("", (), None)))
        self.restart()

    def restart(self) -> None:
        """Forget every entry."""
        self._rows: dict[int, tuple[bytes | None, bytes]] = {}
        self._bytes = 0
        self._others: set[int] = set()

    @property
    def lacking(self) -> bool:
        """Whether entries were passed over that would be served now: read the topic again."""
        if not self._others:
            return False
        room = len(self._rows) < self._most and self._bytes < self._most_bytes // 2
        return room or not self._wanted.isdisjoint(self._others)

    def rank_by(self, side: ItemSide) -> None:
        """Serve the items of this side first, the most popular of them first."""
        self._side = side.keys[np.lexsort((side.keys, -side.popularity))]
        self._wanted = frozenset(self._side.tolist())

    def learn(self, record_key: bytes | None, value: bytes | None) -> None:
        """Take one record; a malformed one changes nothing."""
        if not value:
            gone = key_named(record_key)
            # An entry that was passed over has no name: its key is that of the item.
            if gone is not None and self._rows.get(gone, (record_key,))[0] == record_key:
                self._remove(gone)
            return
        try:
            entry = decode_catalogue_entry(record_key, value)
        except WireError:
            return
        item = key(entry.item)
        self._remove(item)
        text = (entry.title, entry.genres, entry.year)
        self.longest_name = max(self.longest_name, json_bytes(entry.item))
        self.longest_title = max(self.longest_title, json_bytes(entry.title))
        self.longest_text = max(self.longest_text, sum(map(json_bytes, text)))
        row = CatalogueItem(
            exact(entry.item),
            f"{item:016x}",
            entry.title,
            entry.genres,
            entry.year,
            entry.withdrawn,
        )
        self._put(item, record_key, msgspec.json.encode(row))

    def row(self, item: int) -> CatalogueItem:
        """Return what is shown of an item, by its key; nothing but the key where it has no entry
        or one beyond the bounds."""
        found = self._rows.get(item)
        if found is None:
            return _unlisted(0, item)
        return msgspec.json.decode(found[1], type=CatalogueItem)

    def page(self) -> bytes:
        """Return the body of /catalogue.

        An item of the side without an entry is shown with its number alone; one that is known by
        the hash of its name only cannot be rated by that name, and is left out without a count.
        """
        rows, known = [], 0
        for item in self._side.tolist():
            found = self._rows.get(item)
            if found is not None:
                rows.append(found[1])
                known += 1
            elif item < _STRING:
                rows.append(msgspec.json.encode(_unlisted(item, item)))
        rest = (row for item, (_, row) in self._rows.items() if item not in self._wanted)
        others = list(islice(rest, max(0, self._most - len(rows))))
        left_out = len(self._others) + len(self._rows) - known - len(others)
        return b'{"items":[%s],"left_out":%d}' % (b",".join(rows + others), left_out)

    def _put(self, item: int, name: bytes | None, row: bytes) -> None:
        fits = len(self._rows) < self._most and self._bytes + len(row) <= self._most_bytes
        if fits or item in self._wanted:
            self._rows[item] = name, row
            self._bytes += len(row)
        elif len(self._others) < MOST_KEYS:
            self._others.add(item)

    def _remove(self, item: int) -> None:
        self._others.discard(item)
        found = self._rows.pop(item, None)
        if found is not None:
            self._bytes -= len(found[1])


def _unlisted(name: int, item: int) -> CatalogueItem:
    """Return what is shown of an item without an entry."""
    return CatalogueItem(exact(name), f"{item:016x}", "", (), None, withdrawn=False)
