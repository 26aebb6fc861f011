"""The pages of an array that have changed since somebody last looked, and arrays taken over from
elsewhere.

A part of the state holds named arrays. Beside each lies a bitmap with one byte for each 64 KiB page
(`kernels/pages.py`), set by whoever writes and cleared by whoever has copied the page. It may be
set where nothing has changed, never the other way round. An array that grows does so in its first
dimension, and its bitmap with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.machine.dirty_pages import PAGE_BITS, PAGE_BYTES

Arrays = Mapping[str, NDArray[Any]]
DirtyMap = NDArray[np.uint8]


class StatePart(Protocol):
    """A part of the state."""

    growing: frozenset[str]
    """The names of the arrays whose first dimension grows."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything that decides what the part will say: the arrays, not copies."""

    def dirty_pages(self) -> dict[str, DirtyMap]:
        """Return the bitmap of each array, to be read and cleared."""

    def load(self, arrays: Arrays) -> None:
        """Replace the contents by those of `arrays` and mark every page; raises ValueError, with
        nothing replaced, where they do not fit."""


def page_count(size_bytes: int) -> int:
    """Return how many pages so many bytes take."""
    return int(-(-size_bytes >> PAGE_BITS))


def dirty_map(array: NDArray[Any]) -> DirtyMap:
    """Return a clear bitmap for an array."""
    return np.zeros(page_count(array.nbytes), np.uint8)


def grown_map(old: DirtyMap, array: NDArray[Any]) -> DirtyMap:
    """Return a bitmap for an array that has grown, with the marks of the old one."""
    new = dirty_map(array)
    new[: len(old)] = old
    return new


def leading_pages(of: DirtyMap, array: NDArray[Any]) -> DirtyMap:
    """Return the bitmap of the first rows of an array with room."""
    return of[: page_count(array.nbytes)]


def mark_dirty(of: DirtyMap, first: int, stop: int) -> None:
    """Mark the pages of bytes first .. stop-1."""
    if stop > first:
        of[first // PAGE_BYTES : page_count(stop)] = 1


def check_arrays(given: Arrays, own: Arrays, growing: frozenset[str] = frozenset()) -> None:
    """Raise ValueError unless `given` has the names, types and shapes of `own`; those of `growing`
    may have another first dimension."""
    if given.keys() != own.keys():
        odd = sorted(given.keys() ^ own.keys())
        raise ValueError(f"arrays {odd}: the state has {sorted(own)}, no more and no less")
    for name, array in given.items():
        mine = own[name]
        first = 1 if name in growing else 0
        same = array.ndim == mine.ndim and array.shape[first:] == mine.shape[first:]
        if not same or array.dtype.newbyteorder("=") != mine.dtype:
            raise ValueError(
                f"array {name}: {array.dtype}{list(array.shape)}, and the design has "
                f"{mine.dtype}{list(mine.shape)}: take the state of the same design"
            )


def copy_into(given: Arrays, own: Arrays, dirty_pages: Mapping[str, DirtyMap]) -> None:
    """Copy arrays of fixed shape into one's own, in place; raises ValueError where one does not
    fit."""
    check_arrays(given, own)
    for name, array in own.items():
        np.copyto(array, given[name])
        dirty_pages[name][:] = 1
