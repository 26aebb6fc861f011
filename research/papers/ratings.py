"""What every figure takes: ratings as columns, and a call for each part of it that is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Progress = Callable[[int, int], None]  # parts done, parts in all


class StarRatings(NamedTuple):
    """Users and items (n,) uint64, and their stars 1 .. 5 (n,)."""

    users: NDArray[np.uint64]
    items: NDArray[np.uint64]
    stars: NDArray[np.float64]


def silent(done: int, total: int) -> None:
    """Show no progress."""
