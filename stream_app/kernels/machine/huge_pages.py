"""Huge pages for large arrays of zeros, where the system has them.

The first write to each 4 KiB of new memory is a page fault, and in a virtual machine it costs up to
3 us: a recovery that puts 1 GiB in place spent most of its time there. With huge pages there is one
for 2 MiB. numpy asks for them for `empty`, not for `zeros`.
"""

from __future__ import annotations

import ctypes
import mmap
from functools import cache
from typing import Any

from numpy.typing import NDArray

_LEAST_BYTES = 4 << 20  # as numpy: a smaller array gains nothing and may take 2 MiB more


def advise_huge_pages(array: NDArray[Any]) -> None:
    """Ask for huge pages behind an array, which nothing was written to yet; a system without them
    ignores it."""
    if array.nbytes < _LEAST_BYTES or (madvise := _madvise()) is None:
        return
    page = mmap.PAGESIZE
    address = int(array.__array_interface__["data"][0])
    first = -(-address // page) * page
    size = (address + array.nbytes - first) // page * page
    madvise(ctypes.c_void_p(first), ctypes.c_size_t(size), ctypes.c_int(mmap.MADV_HUGEPAGE))


@cache
def _madvise() -> Any:
    """Return the system's function; None where there are no huge pages."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    return getattr(ctypes.CDLL(None), "madvise", None)
