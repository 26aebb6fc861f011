"""Dirty pages: which 64 KiB pages of an array may have changed, and what they held at a cut.

    page of byte b of an array = b >> PAGE_BITS        pages (ceil(bytes / PAGE_BYTES),) uint8

A writer marks the bytes that it is about to write BEFORE IT WRITES THEM, by one of the functions
below: a mark is also what keeps the page as it was at a cut while a checkpoint of that cut is read.

    CLEAN             has never been written
    WRITTEN           has not changed since the last cut at which it was frozen
    DIRTY             may have changed since
    FROZEN            is read by another thread as of a cut; not written since; with or without
                      WRITTEN
    FROZEN | CHANGED  the same, and may have been written since

Most marks find DIRTY and do nothing. A mark that finds a frozen page copies the pieces of 4 KiB
that it covers, unless they were copied before, to the same place of a room beside the array, and
then sets the piece's byte:

    writer    copy to the room | fence | taken[piece] = 1 | fence | write
    reader    taken[piece]?  yes: fence, read the room
                             no:  read the array, fence, taken[piece] again?  yes: read the room

A reader that saw no byte set after its read has read nothing that was written after the cut. Only
the thread that writes changes `pages`, so freezing and releasing are done by that thread, too.

The four words before the first byte of `pages` say where: the array, the room, the bytes `taken`,
and how many bytes of the array are frozen. A map is therefore made by `blank_map` alone; slices
that begin at its first byte may be passed on.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from stream_app.kernels.machine.memory import (
    ARRAY,
    CHANGED,
    CLEAN,
    DIRTY,
    FROZEN,
    HEADER_BYTES,
    PAGE_BITS,
    PIECE_BITS,
    PIECE_BYTES,
    ROOM,
    SIZE,
    TAKEN,
    WRITTEN,
    address_of,
    byte,
    copy_bytes,
    fence,
    keep_if,
)

__all__ = ["ARRAY", "CHANGED", "CLEAN", "DIRTY", "FROZEN", "ROOM", "SIZE", "TAKEN", "WRITTEN"]

PAGE_BYTES = 1 << PAGE_BITS
FLOATS = np.int64(PAGE_BITS - 2)  # shifts the place of a float32 to its page
WORDS = np.int64(PAGE_BITS - 3)  # the place of a 64-bit word
_FLOAT_BITS, _WORD_BITS, _PAGE = np.int64(2), np.int64(3), np.int64(PAGE_BITS)
_DIRTY = np.uint8(DIRTY)


def blank_map(pages: int) -> NDArray[np.uint8]:
    """Return a clear map of so many pages."""
    return np.zeros(HEADER_BYTES + pages, np.uint8)[HEADER_BYTES:]


@njit(cache=True, nogil=True)
def read_frozen(array, room, taken, first, out):
    """Write the bytes from `first` on (of a piece's beginning), as of the cut, into out (n,) uint8;
    array, room and taken are addresses. For any thread."""
    target, size = address_of(out), out.size
    for at in range(0, size, PIECE_BYTES):
        many = min(PIECE_BYTES, size - at)
        piece = taken + ((first + at) >> PIECE_BITS)
        if byte(piece) == 0:
            copy_bytes(target + at, array + first + at, many)
            fence()
        if byte(piece) != 0:
            fence()
            copy_bytes(target + at, room + first + at, many)


@njit(cache=True, nogil=True, inline="always")
def touch_bytes(pages, first, size):
    """Mark `size` (at most a page of) bytes from `first` on."""
    a = np.int64(first)
    b = a + np.int64(size)
    both = pages[np.uint64(a >> _PAGE)] & pages[np.uint64((b - 1) >> _PAGE)]
    keep_if(both & _DIRTY == 0, pages, a, b)


@njit(cache=True, nogil=True, inline="always")
def touch_floats(pages, first, many):
    """Mark `many` (at most a page of) consecutive floats of a flat array, in which rows of as many
    follow each other from the first on; `many` is a compile-time number."""
    a = np.int64(first)
    if (1 << FLOATS) % many:
        touch_bytes(pages, a << _FLOAT_BITS, np.int64(many) << _FLOAT_BITS)
    else:
        state = pages[np.uint64(a >> FLOATS)]
        keep_if(state != _DIRTY, pages, a << _FLOAT_BITS, (a + many) << _FLOAT_BITS)


@njit(cache=True, nogil=True, inline="always")
def touch_float(pages, at):
    """Mark one float, or one uint32."""
    a = np.int64(at)
    state = pages[np.uint64(a >> FLOATS)]
    keep_if(state != _DIRTY, pages, a << _FLOAT_BITS, (a + 1) << _FLOAT_BITS)


@njit(cache=True, nogil=True, inline="always")
def touch_word(pages, at):
    """Mark one 64-bit word."""
    a = np.int64(at)
    state = pages[np.uint64(a >> WORDS)]
    keep_if(state != _DIRTY, pages, a << _WORD_BITS, (a + 1) << _WORD_BITS)


@njit(cache=True, nogil=True, inline="always")
def touch_triple(pages, row, shift):
    """Mark a row of three numbers, `FLOATS` or `WORDS`."""
    size = _PAGE - shift
    touch_bytes(pages, (np.int64(row) * 3) << size, np.int64(3) << size)


@njit(cache=True, nogil=True)
def all_dirty(pages, many):
    """Return whether the first `many` pages are DIRTY: no mark would do anything until the next
    cut."""
    clear = np.uint8(0)
    for n in range(many):
        clear |= pages[n] ^ _DIRTY
    return clear == 0


@njit(cache=True, nogil=True, inline="always")
def pages_of(floats):
    """Return how many pages so many floats take."""
    return (np.int64(floats) + (1 << FLOATS) - 1) >> FLOATS


@njit(cache=True, nogil=True)
def touch_range(pages, first, stop):
    """Mark bytes first .. stop-1, any number of pages."""
    keep_if(stop > first, pages, np.int64(first), np.int64(stop))


@njit(cache=True, nogil=True)
def touch_words(pages, rows):
    """Mark the 64-bit words `rows` (m,)."""
    for n in range(rows.size):
        touch_word(pages, rows[n])
