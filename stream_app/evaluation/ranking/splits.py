"""What is held out when lists are measured: later ratings, by time.

    user-time   each user's last fifth, rounded down
    last        each user's last rating
    global      the last fifth of the stream

Rows are in time order, that of the file where it has no times. The learned part is older than what
it is tested on: for each user, and under `global` for all of them.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Split = Literal["user-time", "last", "global"]
SPLITS: tuple[Split, ...] = ("user-time", "last", "global")
_PARTS = 5  # one of so many parts is held out


def held_out(users: NDArray[np.uint64], split: str) -> NDArray[np.bool_]:
    """Return which rows (n,) in time order are held out; ValueError for an unknown split."""
    if split not in SPLITS:
        raise ValueError(f"split {split}: choose {', '.join(SPLITS[:-1])} or {SPLITS[-1]}")
    n = len(users)
    if split == "global":
        return np.arange(n) >= n - n // _PARTS
    _, inverse, counts = np.unique(users, return_inverse=True, return_counts=True)
    order = np.argsort(inverse, kind="stable")
    after = np.empty(n, np.int64)  # ratings of the same user that follow
    after[order] = np.cumsum(counts)[inverse[order]] - 1 - np.arange(n)
    last = np.ones(n, np.int64) if split == "last" else counts[inverse] // _PARTS
    return np.asarray(after < last)
