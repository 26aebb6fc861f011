"""Large arrays of a state ask for huge pages; small ones, and systems without them, do not."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.kernels.machine.memory import advise_huge_pages
from stream_app.models.growing_arrays import GrowingArrays
from stream_app.models.paged_arrays import FixedArrays

_SWITCH = Path("/sys/kernel/mm/transparent_hugepage/enabled")
needs_huge_pages = pytest.mark.skipif(
    not _SWITCH.exists(), reason="this system has no transparent huge pages"
)


def _asked(array: NDArray[np.uint8]) -> bool:
    """Return whether huge pages were asked for behind the middle of an array."""
    middle = array.__array_interface__["data"][0] + array.nbytes // 2
    holds = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split()
        if "-" in first and not first.endswith(":"):
            begin, end = (int(part, 16) for part in first.split("-"))
            holds = begin <= middle < end
        elif first == "VmFlags:" and holds:
            return "hg" in rest
    raise AssertionError("the array lies in no mapping")


@needs_huge_pages
def test_a_large_array_of_the_state_has_huge_pages() -> None:
    part = FixedArrays()
    array = part.keep("cells", np.zeros(16 << 20, np.uint8))
    assert _asked(array)
    assert not array.any()


@needs_huge_pages
def test_an_array_that_has_grown_has_huge_pages() -> None:
    class Rows(GrowingArrays):
        growing = frozenset({"rows"})

    part = Rows()
    part.keep_growing("rows", np.uint8, 1024)
    part.extend("rows", 1 << 14)
    assert _asked(part.room("rows"))
    part.resize({"rows": 1 << 15})
    assert _asked(part.room("rows"))


@needs_huge_pages
def test_a_small_array_has_none() -> None:
    """In memory of their own, since what the allocator gives may have been asked for before."""
    for size, asked in ((1 << 20, False), (16 << 20, True)):
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        array = np.frombuffer(memory, np.uint8)
        advise_huge_pages(array)
        assert _asked(array) == asked
