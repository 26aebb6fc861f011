"""What is held out when lists are measured: later ratings, by time.

    global      the last fifth of the stream; users with 5 learned ratings or more are tested
    visit       each user's last day of ratings, of users with two days or more
    user-time   each user's last fifth, rounded down
    last        each user's last rating

Rows are in time order, that of the file where it has no times. The learned part is older than what
it is tested on: for each user, and under `global` for all of them.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Split = Literal["global", "visit", "user-time", "last"]
SPLITS: tuple[Split, ...] = ("global", "visit", "user-time", "last")
LEAST_LEARNED = {"global": 5}  # learned ratings of a tested user; of other splits 1
_PARTS = 5  # one of so many parts is held out


def held_out(
    users: NDArray[np.uint64], split: str, days: NDArray[np.int64] | None = None
) -> NDArray[np.bool_]:
    """Return which rows (n,) in time order are held out; ValueError for an unknown split, and for
    `visit` without the days (n,) of the ratings."""
    if split not in SPLITS:
        raise ValueError(f"split {split}: choose {', '.join(SPLITS[:-1])} or {SPLITS[-1]}")
    n = len(users)
    if split == "global":
        return np.arange(n) >= n - n // _PARTS
    _, inverse, counts = np.unique(users, return_inverse=True, return_counts=True)
    order = np.argsort(inverse, kind="stable")
    ends = np.cumsum(counts)
    if split == "visit":
        if days is None:
            raise ValueError("split visit: the ratings have no times; choose user-time or last")
        first, last = days[order[ends - counts]], days[order[ends - 1]]
        return np.asarray((days == last[inverse]) & (first < last)[inverse])
    after = np.empty(n, np.int64)  # ratings of the same user that follow
    after[order] = ends[inverse[order]] - 1 - np.arange(n)
    held = np.ones(n, np.int64) if split == "last" else counts[inverse] // _PARTS
    return np.asarray(after < held)
