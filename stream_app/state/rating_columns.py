"""Cells of a batch as columns: what was reported of them, and what is known of them beforehand.

Where presence is protected, every cell of a public scope is sent. A cell whose report says nothing
is `silent`; one that says something may be a fake, and `priors` says how likely it was to hold a
rating before its report was looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Cells(NamedTuple):
    """Cells in their order, (m,) each."""

    users: NDArray[np.uint64]
    items: NDArray[np.uint64]
    reports: NDArray[np.uint8]
    channels: NDArray[np.uint16]
    priors: NDArray[np.float32]  # 1 where presence is public
    held: NDArray[np.bool_]
    silent: NDArray[np.bool_]

    def at(self, which: NDArray[np.bool_]) -> Cells:
        """Return some of them."""
        return Cells._make(column[which] for column in self)


class Silent(NamedTuple):
    """Cells that say nothing (k,): predicted, and no more; row -1: an item not met yet."""

    rows: NDArray[np.int64]
    reports: NDArray[np.uint8]
    channels: NDArray[np.uint16]
    predicted: NDArray[np.float64]


SILENCE = Silent(np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0, np.uint16), np.empty(0))
