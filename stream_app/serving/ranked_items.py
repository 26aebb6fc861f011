"""What a query comes to: the best items for it, or why there are none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class RankedItems:
    """Items (k,) uint64, best first, with their predicted ratings (k,); the method that ranked
    them and the index behind it; the cut of the state; the measured nDCG@10 of the method and of
    popularity, None while unknown. `because` holds for each item the key of the rated item that
    contributes most, None where there is none; empty where none is known. `now`: whether a
    user's list is for this visit; None for other answers."""

    items: NDArray[np.uint64]
    scores: NDArray[np.float64]
    method: str
    as_of: int
    ndcg: float | None = None
    ndcg_popular: float | None = None
    because: tuple[int | None, ...] = ()
    now: bool | None = None


@dataclass(frozen=True)
class Refused:
    """A query that is not answered, and one sentence of why: at most 240 characters of ASCII
    without quotes and backslashes."""

    reason: str
