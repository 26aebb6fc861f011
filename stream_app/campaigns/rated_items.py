"""A person's own ratings over the scope of a campaign: they are read on the device alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class RatedItems:
    """Places in the scope (n,), each once, oldest first; stars 1 .. 5 (n,); which are likes (n,).

    Raises ValueError for columns that differ in length, an item twice, or stars off the scale.
    """

    places: NDArray[np.intp]
    stars: NDArray[np.float64]
    liked: NDArray[np.bool_]

    def __post_init__(self) -> None:
        lengths = {len(self.places), len(self.stars), len(self.liked)}
        if len(lengths) > 1:
            raise ValueError(f"columns of {sorted(lengths)} rows: all must have one length")
        if len(np.unique(self.places)) != len(self.places):
            raise ValueError("an item is rated twice: the newest rating counts alone")
        if len(self.places) and int(self.places.min()) < 0:
            raise ValueError("a place in the scope is 0 or more")
        if not ((self.stars >= 1) & (self.stars <= 5)).all():
            raise ValueError("stars are on the scale 1 .. 5")

    @classmethod
    def none(cls) -> RatedItems:
        """Return the ratings of a person without any: a contribution of zeros."""
        return cls(np.empty(0, np.intp), np.empty(0), np.empty(0, np.bool_))

    def __len__(self) -> int:
        return len(self.places)

    def within(self, items: int) -> RatedItems:
        """Return the ratings of the first `items` of the scope."""
        kept = self.places < items
        return RatedItems(self.places[kept], self.stars[kept], self.liked[kept])
