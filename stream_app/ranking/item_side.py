"""The public item side: all that a list is made from besides the user's own history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class ItemSide:
    """Item side of n head items, derived from the state after cut `version`.

    keys (n,) uint64. popularity (n,): the probability that a user has the item, the mean of all
    time and lately, above 0. lately (n,): log of that by the recent counts alone. liking (n,): log
    of the share of likes against that of all items. ratings (n,): predicted rating of the average
    user, 1 .. 5. link_targets, link_weights (n, k): for each item of a history the items that go
    with it, and how strongly; weight 0 where a row has fewer. within_..., between_... (n, l): what
    tends to follow it in a visit, and at the next one; l may be 0. factors (n, r): where each item
    lies among the tastes, for maps; r may be 0. next_weights, now_weights (2 c,): the weights of
    the c components of a score (`scores.py`), for the two lists; empty for the default ones.
    """

    version: int
    keys: NDArray[np.uint64]
    popularity: NDArray[np.float32]
    lately: NDArray[np.float32]
    liking: NDArray[np.float32]
    ratings: NDArray[np.float32]
    link_targets: NDArray[np.uint16]
    link_weights: NDArray[np.float32]
    within_targets: NDArray[np.uint16]
    within_weights: NDArray[np.float32]
    between_targets: NDArray[np.uint16]
    between_weights: NDArray[np.float32]
    factors: NDArray[np.float32]
    next_weights: NDArray[np.float32]
    now_weights: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        arrays: tuple[Any, ...] = tuple(vars(self).values())
        return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))
