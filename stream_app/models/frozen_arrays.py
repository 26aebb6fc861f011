"""Arrays as they were at a cut, for another thread to read while their owner goes on writing.

    owner's thread   frozen = FrozenArray(array, pages, which, room)        copies nothing
                     ... marks and writes: a mark copies 4 KiB to the room (`dirty_pages.py`)
                     frozen.release()
    another thread   frozen.page(number)     between the two

So freezing costs a pass over the marks, and memory only what is written meanwhile. An array that
grows is copied by its owner to a new one, with a new map; the old one is kept alive here.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.machine.dirty_pages import (
    ARRAY,
    HEADER_BYTES,
    PAGE_BYTES,
    PIECE_BYTES,
    ROOM,
    SIZE,
    TAKEN,
    read_frozen,
)
from stream_app.models.paged_arrays import DirtyMap, frozen, page_count, released

_FREED_AT_A_TIME = 1 << 20  # bytes: the interpreter is held while they go back to the system


class NoRoom(MemoryError):
    """The system does not grant the memory of a `Room`; the message gives size, limit and fix."""


class Room:
    """Zeroed memory for what is kept of frozen arrays: reserved at once, resident where used."""

    def __init__(self, arrays: list[NDArray[Any]]) -> None:
        size = sum(_rounded(a.nbytes) + _rounded(_pieces(a.nbytes)) for a in arrays)
        self._memory = _reserved(max(size, PIECE_BYTES))
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            # A huge page would be resident as a whole for a piece of 4 KiB.
            self._memory.madvise(mmap.MADV_NOHUGEPAGE)
        self._given_back = 0
        self._next = int(np.frombuffer(self._memory, np.uint8).ctypes.data)

    def reserve(self, size: int) -> int:
        """Return the address of the next `size` bytes."""
        address = self._next
        self._next += _rounded(size)
        return address

    def give_back(self) -> bool:
        """Give the next part of the memory back to the system, and return whether some is left;
        from any thread, once nothing is frozen in it.

        The interpreter is held meanwhile, so let other threads run between two calls.
        """
        size = min(_FREED_AT_A_TIME, len(self._memory) - self._given_back)
        if size > 0 and hasattr(mmap, "MADV_DONTNEED"):
            self._memory.madvise(mmap.MADV_DONTNEED, self._given_back, size)
            self._given_back += size
            return True
        self._memory.close()
        return False

    def close(self) -> None:
        """Give all of it back."""
        while self.give_back():
            pass


class FrozenArray:
    """Pages of one array as of now; make and release it on the thread that writes to the array.

    pages: the array's map, nothing of it frozen; which (pages,) bool: the pages to freeze. The
    marks of all pages are cleared; that they were written is kept.
    """

    def __init__(
        self, array: NDArray[Any], pages: DirtyMap, which: NDArray[np.bool_], room: Room
    ) -> None:
        self._is_frozen = False
        self.which = which
        self._array, self._pages, self._bytes = array, pages, array.nbytes
        self._address = int(array.__array_interface__["data"][0])
        self._memory = room  # alive as long as the map points into it
        self._room = room.reserve(array.nbytes)
        self._taken = room.reserve(_pieces(array.nbytes))
        self._set_header(self._address, self._room, self._taken, array.nbytes)
        pages[:] = frozen(pages, which)
        self._is_frozen = True

    def __del__(self) -> None:
        self.release()

    def page(self, number: int) -> NDArray[np.uint8]:
        """Return a copy of a frozen page; the last one may hold fewer bytes. Any thread."""
        if not self.which[number]:
            raise RuntimeError(f"page {number} is not frozen: freeze it at the cut")
        first = number * PAGE_BYTES
        out = np.empty(min(PAGE_BYTES, self._bytes - first), np.uint8)
        read_frozen(self._address, self._room, self._taken, first, out)
        return out

    @property
    def kept_bytes(self) -> int:
        """Bytes that were copied since the cut, in pieces of 4 KiB."""
        taken: bytes = ctypes.string_at(self._taken, _pieces(self._bytes))
        return int(PIECE_BYTES) * taken.count(1)

    def release(self) -> None:
        """End the freeze: pages that were written since are dirty, all others clean."""
        if self._is_frozen:
            self._is_frozen = False
            self._pages[:] = released(self._pages)
            self._set_header(0, 0, 0, 0)

    def _set_header(self, array: int, room: int, taken: int, size: int) -> None:
        place = int(self._pages.__array_interface__["data"][0]) - HEADER_BYTES
        words = (ctypes.c_int64 * 4).from_address(place)
        words[ARRAY], words[ROOM], words[TAKEN], words[SIZE] = array, room, taken, size


def frozen_arrays(
    arrays: dict[str, NDArray[Any]],
    maps: dict[str, DirtyMap],
    which: dict[str, NDArray[np.bool_]],
) -> tuple[dict[str, FrozenArray], Room]:
    """Freeze the pages `which` of each array; arrays without any only lose their marks."""
    wanted = {name: array for name, array in arrays.items() if which[name].any()}
    room = Room(list(wanted.values()))
    made = {
        name: FrozenArray(array, maps[name], which[name], room) for name, array in wanted.items()
    }
    for name in arrays.keys() - wanted.keys():
        maps[name][:] = frozen(maps[name], which[name])
    return made, room


def _reserved(size: int) -> mmap.mmap:
    """Return private memory of so many bytes; raises `NoRoom` where the system grants less: it may
    count what is reserved and not only what is used."""
    try:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        raise NoRoom(
            f"{size >> 20:,} MiB of memory cannot be reserved to freeze the changed arrays of the "
            f"state ({error}): the system's limit on reserved memory (vm.overcommit_memory, "
            "vm.overcommit_ratio, ulimit -v) must leave room for the state twice; raise it or add "
            "swap (little of the memory is used), or lower sketch_bytes"
        ) from None


def _rounded(size: int) -> int:
    return int(-(-size // PIECE_BYTES) * PIECE_BYTES)


def _pieces(size: int) -> int:
    return int(page_count(size) * (PAGE_BYTES // PIECE_BYTES))
