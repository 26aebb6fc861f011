"""The messages in which devices send their ratings.

    single    one rating a message, on the day of the rating
    daily     one message a user and day
    packed    rows of a stream in chunks, a message for each user of a chunk, all on one day: what
              a replay of a file sends (`producers/fleet/replay.py`)

A message of several ratings holds them in the order of the item keys: the order in which the user
rated is not sent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FORMS = ("single", "daily", "packed")


class Messages(NamedTuple):
    """The rows (m,) of the ratings in the order in which they are sent; of each message (n,) the
    number of its ratings and its day."""

    rows: NDArray[np.intp]
    counts: NDArray[np.int64]
    days: NDArray[np.int64]


def messages_of(
    form: str,
    users: NDArray[np.uint64],
    items: NDArray[np.uint64],
    days: NDArray[np.int64],
    chunk: int,
) -> Messages:
    """Return the messages of ratings (m,) in time order; `chunk` rows are packed together."""
    if form == "single":
        return Messages(np.arange(len(users)), np.ones(len(users), np.int64), days)
    groups = days if form == "daily" else np.arange(len(users)) // chunk
    rows = np.lexsort((items, users, groups))
    begins = np.ones(len(rows), np.bool_)
    begins[1:] = (np.diff(groups[rows]) != 0) | (users[rows][1:] != users[rows][:-1])
    heads = np.flatnonzero(begins)
    sent = days[rows[heads]] if form == "daily" else np.full(len(heads), days.max(initial=0))
    return Messages(rows, np.diff(heads, append=len(rows)), sent)
