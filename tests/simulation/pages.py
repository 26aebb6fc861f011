"""A page store in memory: arrays of bytes, at first those of an empty state."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from stream_app.wire.state_records import PAGE_BYTES, Manifest


class BytePages:
    """Takes pages as a replica does; `empty` gives the first bytes of arrays by name, zeros for
    others."""

    def __init__(self, empty: Mapping[str, bytes] | None = None) -> None:
        self._empty = empty or {}
        self.arrays: list[bytearray] = []

    def shape(self, manifest: Manifest) -> None:
        """Give the arrays the lengths of a manifest."""
        before, self.arrays = self.arrays, []
        for number, array in enumerate(manifest.arrays):
            size = int(array.dtype[2:]) * prod(array.shape)
            held = before[number] if number < len(before) else self._first(array.name, size)
            self.arrays.append((held + bytes(size))[:size])
        self._names = [array.name for array in manifest.arrays]

    def _first(self, name: str, size: int) -> bytearray:
        return bytearray(self._empty.get(name, bytes(size)))

    def put(self, array: int, page: int, data: memoryview) -> None:
        """Put a page in place."""
        place = self._place(array, page)
        if place.stop - place.start != len(data):
            raise ValueError(f"array {array}, page {page}: {len(data)} bytes")
        self.arrays[array][place] = data

    def clear(self, array: int, page: int) -> None:
        """Make a page that of an empty state again."""
        place = self._place(array, page)
        first = self._first(self._names[array], len(self.arrays[array]))
        self.arrays[array][place] = first[place].ljust(place.stop - place.start, b"\0")

    def page(self, array: int, page: int) -> bytes:
        """Return a page."""
        return bytes(self.arrays[array][self._place(array, page)])

    def _place(self, array: int, page: int) -> slice:
        size = len(self.arrays[array])
        return slice(min(page * PAGE_BYTES, size), min((page + 1) * PAGE_BYTES, size))
