"""The order of rows: by time, or what stands for it in a file without times.

    times                         by time; equal times keep the order of the file
    no times                      the order of the file
    no times, sorted by user      mixed at random by a seed; the rows of one user keep their order

A file sorted by user, read as a stream, would hold one user after the other: every rating would be
predicted from other users' finished histories, and a learner would never meet a user again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_SORTED = 0.1  # of the rows that could stand apart from their user's others, so many do


def is_timed(timestamps: NDArray[np.int64] | None) -> bool:
    """Return whether the times order anything."""
    return timestamps is not None and bool((timestamps != timestamps[:1]).any())


def is_sorted_by_user(users: NDArray[Any]) -> bool:
    """Return whether the rows of nearly every user stand together, and users have several."""
    changes = 1 + int((users[1:] != users[:-1]).sum())
    people = len(np.unique(users))
    return people > 1 and changes - people < _SORTED * (len(users) - people)


def mixed(users: NDArray[Any], seed: int) -> NDArray[np.int64]:
    """Return the rows (n,) in a random order in which the rows of each user keep theirs."""
    _, owners = np.unique(users, return_inverse=True)
    luck = np.random.Generator(np.random.PCG64(seed % 2**63)).random(len(owners))
    places = owners[np.argsort(luck, kind="stable")]
    order = np.empty(len(owners), np.int64)
    # The k-th place of a user holds the k-th row of that user.
    order[np.argsort(places, kind="stable")] = np.argsort(owners, kind="stable")
    return order


def order_note(timestamps: NDArray[np.int64] | None, users: NDArray[Any]) -> str | None:
    """Return what stands for the time order of a file without times; None for one with times."""
    if is_timed(timestamps) or len(users) < 2:
        return None
    if is_sorted_by_user(users):
        return (
            "no times, and the rows are sorted by user: the users are mixed at random by a seed, "
            "and the rows of each user keep the order of the file"
        )
    return "no times: the order of the file stands for the time order"
