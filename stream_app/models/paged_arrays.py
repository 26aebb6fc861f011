"""Named arrays in pages of 64 KiB: which pages have changed, and how arrays are copied in.

A part of the state holds named arrays. Beside each lies a dirty-page map with one byte for each
page (`kernels/machine/dirty_pages.py`): a writer marks what it is about to change before it does, a
reader that has dealt with a page clears its byte. A byte may be set although nothing has changed,
never the other way round. An array that grows does so in its first dimension, and its map with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.machine.dirty_pages import (
    CHANGED,
    CLEAN,
    DIRTY,
    FROZEN,
    PAGE_BITS,
    WRITTEN,
    blank_map,
    touch_range,
)
from stream_app.kernels.machine.memory import advise_huge_pages

_CACHE_LINE = 64

Arrays = Mapping[str, NDArray[Any]]
DirtyMap = NDArray[np.uint8]
_Array = TypeVar("_Array", bound=NDArray[Any])


class StatePart(Protocol):
    """A part of the state."""

    @property
    def growing(self) -> frozenset[str]:
        """The names of the arrays whose first dimension grows."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything that decides the part's later results: the arrays, not copies."""

    def dirty_pages(self) -> dict[str, DirtyMap]:
        """Return the dirty-page map of each array, to be read and cleared."""

    def load(self, arrays: Arrays) -> None:
        """Replace the contents by those of `arrays` and mark every page.

        Raises ValueError, with nothing replaced, where names, types or shapes do not fit.
        """

    def resize(self, rows: Mapping[str, int]) -> None:
        """Give each growing array so many rows, to be filled through `arrays()`; then call
        `index`.

        Rows that remain keep their contents and new ones are zero. Until `index` the part only
        holds bytes: it is not to be asked anything.
        """

    def index(self) -> None:
        """Derive everything else from the arrays, which were filled in place, and mark every page.

        Raises ValueError where the contents are no state; the part is then of no use.
        """


class FixedArrays:
    """A state part whose arrays never change their shape: a subclass names each with `keep`.

    A subclass that writes to few pages marks them in the maps of `maps()`; one that does not care
    calls `mark_all_dirty`. Both before the change: a checkpoint may be reading what is there.
    """

    growing: ClassVar[frozenset[str]] = frozenset()

    def __init__(self) -> None:
        self._arrays: dict[str, NDArray[Any]] = {}
        self._maps: dict[str, DirtyMap] = {}

    def keep(self, name: str, array: _Array) -> _Array:
        """Make `array` part of the state under `name`, with a clear map, and return it."""
        advise_huge_pages(array)
        self._arrays[name], self._maps[name] = array, dirty_map(array)
        return array

    def maps(self) -> tuple[DirtyMap, ...]:
        """Return the dirty-page maps in the order in which the arrays were named."""
        return tuple(self._maps.values())

    def mark_all_dirty(self) -> None:
        """Mark every page of every array; call it before a change."""
        for name, pages in self._maps.items():
            mark_dirty(pages, 0, self._arrays[name].nbytes)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state itself, not a copy."""
        return dict(self._arrays)

    def dirty_pages(self) -> dict[str, DirtyMap]:
        """Return the dirty-page map of each array, to be read and cleared."""
        return dict(self._maps)

    def load(self, arrays: Arrays) -> None:
        """Replace the state by what `arrays()` returned; raises ValueError where it does not
        fit."""
        copy_into(arrays, self._arrays, self._maps)

    def resize(self, rows: Mapping[str, int]) -> None:
        """Refuse any growing array; see `StatePart`."""
        check_rows(rows, self.growing)

    def index(self) -> None:
        """Mark every page: nothing is derived from these arrays; see `StatePart`."""
        self.mark_all_dirty()

    @property
    def memory_bytes(self) -> int:
        """Size of the state."""
        return sum(array.nbytes for array in self._arrays.values())


def aligned(floats: int) -> NDArray[np.float32]:
    """Return a flat array of zeros on a cache line, so that a vector crosses as few as possible."""
    raw = np.zeros(floats + _CACHE_LINE // 4, np.float32)
    first = (-raw.ctypes.data % _CACHE_LINE) // 4
    return raw[first : first + floats]


def page_count(size_bytes: int) -> int:
    """Return how many pages so many bytes take."""
    return int(-(-size_bytes >> PAGE_BITS))


def dirty_map(array: NDArray[Any]) -> DirtyMap:
    """Return a clear dirty-page map for an array."""
    pages: DirtyMap = blank_map(page_count(array.nbytes))
    return pages


def grown_map(old: DirtyMap, array: NDArray[Any]) -> DirtyMap:
    """Return a map for an array that has grown, with the marks of the old map.

    What is frozen is so in the old array, which a reader keeps alive and no writer writes to.
    """
    new = dirty_map(array)
    new[: len(old)] = released(old)
    return new


def released(pages: DirtyMap) -> DirtyMap:
    """Return the marks of a map as they are when nothing of it is frozen any more."""
    written = pages & np.uint8(WRITTEN)
    return np.where(pages & np.uint8(DIRTY | CHANGED), np.uint8(DIRTY), written)


def frozen(pages: DirtyMap, which: NDArray[np.bool_]) -> DirtyMap:
    """Return the marks of a map, of which nothing is frozen, when the pages `which` (n,) are; the
    others have not changed from then on."""
    written: DirtyMap = np.where(pages & np.uint8(DIRTY | WRITTEN), np.uint8(WRITTEN), np.uint8(0))
    marks: DirtyMap = np.where(which, np.uint8(FROZEN), np.uint8(0)) | written
    return marks


def loaded(written: NDArray[np.bool_]) -> DirtyMap:
    """Return the marks of a state of which some pages (n,) were written, all before now."""
    marks: DirtyMap = np.where(written, np.uint8(WRITTEN), np.uint8(0))
    return marks


def is_dirty(pages: DirtyMap) -> NDArray[np.bool_]:
    """Return which pages may have changed since they were last frozen; nothing is frozen now."""
    dirty: NDArray[np.bool_] = (pages & np.uint8(DIRTY)) != 0
    return dirty


def was_written(pages: DirtyMap) -> NDArray[np.bool_]:
    """Return which pages may differ from what they were when the array was made."""
    written: NDArray[np.bool_] = pages != 0
    return written


def unmark_equal(pages: DirtyMap, array: NDArray[Any], first: NDArray[Any]) -> None:
    """Take the marks from the pages that are as in `first`, an array that nobody has written to,
    and as zeros beyond its end."""
    own, empty = (each.reshape(-1).view(np.uint8) for each in (array, first))
    for number, at in enumerate(range(0, len(own), 1 << PAGE_BITS)):
        # As bytes: numpy takes three times as long to compare as many.
        page, begun = (each[at : at + (1 << PAGE_BITS)].tobytes() for each in (own, empty))
        if page == begun[: len(page)].ljust(len(page), b"\0"):
            pages[number] = CLEAN


def leading_pages(pages: DirtyMap, array: NDArray[Any]) -> DirtyMap:
    """Return the part of a map that covers `array`, the rows in use of a larger table."""
    return pages[: page_count(array.nbytes)]


def mark_dirty(pages: DirtyMap, first: int, stop: int) -> None:
    """Mark bytes first .. stop-1, before they change."""
    touch_range(pages, first, stop)


def check_arrays(given: Arrays, own: Arrays, growing: frozenset[str] = frozenset()) -> None:
    """Raise ValueError unless `given` has the names, types and shapes of `own`; those of `growing`
    may have another first dimension."""
    if given.keys() != own.keys():
        odd = sorted(given.keys() ^ own.keys())
        raise ValueError(f"arrays {odd}: the state has {sorted(own)}, no more and no less")
    for name, array in given.items():
        expected = own[name]
        first = 1 if name in growing else 0
        same = array.ndim == expected.ndim and array.shape[first:] == expected.shape[first:]
        if not same or array.dtype.newbyteorder("=") != expected.dtype:
            raise ValueError(
                f"array {name}: {array.dtype}{list(array.shape)}, and the spec requires "
                f"{expected.dtype}{list(expected.shape)}: use the state of the same spec"
            )


def check_rows(rows: Mapping[str, int], growing: frozenset[str]) -> None:
    """Raise ValueError unless `rows` names exactly the growing arrays."""
    if rows.keys() != growing:
        raise ValueError(f"rows of {sorted(rows)}: {sorted(growing)} grow, no more and no less")


def copy_into(given: Arrays, own: Arrays, dirty_pages: Mapping[str, DirtyMap]) -> None:
    """Copy arrays of fixed shape into `own`, in place, and mark them; raises ValueError where one
    does not fit."""
    check_arrays(given, own)
    for name, array in own.items():
        mark_dirty(dirty_pages[name], 0, array.nbytes)
        if given[name] is not array:
            np.copyto(array, given[name])
