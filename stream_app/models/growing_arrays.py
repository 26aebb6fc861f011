"""State parts with arrays that grow in their first dimension, beside arrays of fixed shape.

A growing array lies in a room of at least its length, which doubles when it is full, so that
adding single rows stays cheap. Rows beyond the length are zero and are no part of the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.machine.memory import advise_huge_pages
from stream_app.models.paged_arrays import (
    Arrays,
    DirtyMap,
    FixedArrays,
    check_arrays,
    check_rows,
    dirty_map,
    grown_map,
    leading_pages,
    mark_dirty,
)

_LEAST = 64  # rows


class GrowingArrays(FixedArrays):
    """A state part of which the arrays named in `growing` grow: a subclass names each with
    `keep_growing`."""

    def __init__(self) -> None:
        super().__init__()
        self._lengths: dict[str, int] = {}

    def keep_growing(self, name: str, dtype: type[np.generic], *row: int) -> None:
        """Make an array without rows part of the state under `name`; `row` is a row's shape."""
        self.keep(name, np.zeros((_LEAST, *row), dtype))
        self._lengths[name] = 0

    def room(self, name: str) -> NDArray[Any]:
        """Return the whole room of an array, as kernels take it."""
        return self._arrays[name]

    def pages(self, name: str) -> DirtyMap:
        """Return the dirty-page map of the whole room."""
        return self._maps[name]

    def length(self, name: str) -> int:
        """Return the number of rows of an array."""
        return self._lengths.get(name, len(self._arrays[name]))

    def reserve(self, name: str, rows: int) -> None:
        """Make sure that `rows` rows fit into the room of an array."""
        old = self._arrays[name]
        if rows <= len(old):
            return
        new = np.zeros((1 << (rows - 1).bit_length(), *old.shape[1:]), old.dtype)
        advise_huge_pages(new)
        new[: self._lengths[name]] = old[: self._lengths[name]]
        self._arrays[name], self._maps[name] = new, grown_map(self._maps[name], new)

    def extend(self, name: str, rows: int) -> None:
        """Make an array `rows` long, and mark the rows that it gains."""
        before = self._lengths[name]
        if rows > before:
            self.reserve(name, rows)
            size = self._arrays[name][0].nbytes
            mark_dirty(self._maps[name], size * before, size * rows)
            self._lengths[name] = rows

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state itself, not a copy."""
        return {name: room[: self.length(name)] for name, room in self._arrays.items()}

    def dirty_pages(self) -> dict[str, DirtyMap]:
        """Return the dirty-page map of each array, to be read and cleared."""
        return {name: leading_pages(self._maps[name], a) for name, a in self.arrays().items()}

    def load(self, arrays: Arrays) -> None:
        """Replace the state by what `arrays()` returned; raises ValueError where it does not
        fit."""
        check_arrays(arrays, self.arrays(), self.growing)
        self.check(arrays)
        self.resize({name: len(arrays[name]) for name in self.growing})
        for name, own in self.arrays().items():
            np.copyto(own, arrays[name])
        self.derive()
        self.mark_all_dirty()

    def resize(self, rows: Mapping[str, int]) -> None:
        """Give each growing array so many rows; see `StatePart`."""
        check_rows(rows, self.growing)
        self.mark_all_dirty()
        for name, count in rows.items():
            old = self._arrays[name]
            room = max(_LEAST, 1 << max(count - 1, 0).bit_length())
            if room == len(old):
                old[count:] = 0
            else:
                kept = min(count, self._lengths[name])
                new = self._arrays[name] = np.zeros((room, *old.shape[1:]), old.dtype)
                advise_huge_pages(new)
                new[:kept] = old[:kept]
                self._maps[name] = dirty_map(new)
            self._lengths[name] = count

    def index(self) -> None:
        """Derive everything else from the arrays; see `StatePart`."""
        self.check(self.arrays())
        self.derive()
        self.mark_all_dirty()

    def check(self, arrays: Arrays) -> None:
        """Raise ValueError where the contents are no state; a subclass that has a rule says so."""

    def derive(self) -> None:
        """Derive what a subclass holds beside its arrays."""
