"""The public item side: all that a list is made from besides the user's own history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class ItemSide:
    """Item side of n head items, derived from the state after cut `version`.

    keys (n,) uint64. popularity (n,): share of devices that have or like the item. ratings (n,):
    predicted rating of the average user, 1 .. 5. link_targets, link_weights (n, k): for each item
    of a history the items that go with it, and how strongly; weight 0 where a row has fewer.
    next_targets, next_weights (n, l): the items that tend to follow it; l may be 0. rates (n,),
    factors (n, r), noise (n,): the low-rank model x = rates + factors z, with the variance of x
    that it leaves; r may be 0.
    """

    version: int
    keys: NDArray[np.uint64]
    popularity: NDArray[np.float32]
    ratings: NDArray[np.float32]
    link_targets: NDArray[np.uint16]
    link_weights: NDArray[np.float32]
    next_targets: NDArray[np.uint16]
    next_weights: NDArray[np.float32]
    rates: NDArray[np.float32]
    factors: NDArray[np.float32]
    noise: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        arrays: tuple[NDArray[Any], ...] = (
            *(self.keys, self.popularity, self.ratings, self.link_targets, self.link_weights),
            *(self.next_targets, self.next_weights, self.rates, self.factors, self.noise),
        )
        return sum(array.nbytes for array in arrays)
