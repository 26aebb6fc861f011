"""The tables of a feed of pairs and the moments of its items.

pairs, between, within   4 bytes each for each two items of the head: together 48 MiB at 2,048
                         items, 192 at 4,096; `pairs` alone where visits are not kept
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.cooccurrence.pair_tables import clear_slots
from stream_app.models.paged_arrays import Arrays, DirtyMap, FixedArrays, mark_dirty

TABLES = ("pairs", "pairs_high", "between", "between_high", "within", "within_high")
Half = NDArray[np.uint16]


class Moments(FixedArrays):
    """pairs, between, within (size, size): sums in two halves, uint16 each; moments (size, 3)
    int64; numbers (3,) int64. complete: adds to the tables what waits; called before they are read
    or replaced."""

    def __init__(
        self, size: int, *, in_order: bool, complete: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__()
        self.complete = complete
        self.moments = self.keep("moments", np.zeros((size, 3), np.int64))
        self.numbers = self.keep("numbers", np.zeros(3, np.int64))
        self.pairs = self._halves("pairs", size)
        self.between = self._halves("between", size if in_order else 0)
        self.within = self._halves("within", size if in_order else 0)

    def _halves(self, name: str, size: int) -> tuple[Half, Half]:
        low, high = (np.zeros((size, size), np.uint16) for _ in range(2))
        if size:
            self.keep(name, low)
            self.keep(f"{name}_high", high)
        return low, high

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state itself, not a copy; it is whole until ratings are counted."""
        self.complete()
        return super().arrays()

    def dirty_pages(self) -> dict[str, DirtyMap]:
        """Return the dirty-page map of each array, with the marks of what waited."""
        self.complete()
        return super().dirty_pages()

    def own_maps(self) -> dict[str, DirtyMap]:
        """Return the dirty-page maps as they are, for what counts and adds."""
        return super().dirty_pages()

    def load(self, arrays: Arrays) -> None:
        """Replace the state by what `arrays()` returned; raises ValueError where it does not
        fit."""
        self.complete()
        super().load(arrays)

    def take(self, smaller: Moments) -> None:
        """Continue the sums of a head of fewer slots, which are the first ones."""
        arrays, pages, held = super().arrays(), super().dirty_pages(), smaller.arrays()
        for name, own in arrays.items():
            rows = held[name]
            mark_dirty(pages[name], 0, own[: len(rows)].nbytes)
            own[tuple(slice(length) for length in rows.shape)] = rows

    def clear(self, slots: NDArray[np.int64]) -> None:
        """Clear all that is known of slots."""
        arrays, pages = super().arrays(), super().dirty_pages()
        for name in TABLES:
            if name in arrays:
                clear_slots(arrays[name], pages[name], slots)
        mark_dirty(pages["moments"], 0, self.moments.nbytes)
        self.moments[slots] = 0
