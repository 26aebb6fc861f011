"""A user's history over the head items, and how much each item of it counts.

    whole         x                              every item
    last visit    x [visits_ago = 0]
    recent        [visits_ago = 0] exp(-age / MEMORY)    age in single ratings of the last visit

x = .2 + .8 P(like): that an item was rated says something, too. A visit is what a user rates on
one day. What came in one message, or is known by its day alone, has one age: the order within it is
never used. Where nothing is known of the time, no item is of the last visit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MEMORY = 5.0  # single ratings
OLDER = 2  # visits ago: before the visit before the last one, or at a time that is not known

Column = NDArray[np.float32]


class History(NamedTuple):
    """Items of one user, (m,) each: slots of the item side; weights x; visits_ago, 0 for the last
    visit; ages, how many single ratings of the last visit are newer."""

    slots: NDArray[np.intp]
    weights: Column
    visits_ago: NDArray[np.int64]
    ages: Column

    @classmethod
    def untimed(cls, slots: NDArray[np.intp], weights: Column) -> History:
        """Return a history of which the times are not known."""
        ago = np.full(len(slots), OLDER, np.int64)
        return cls(slots, weights, ago, np.zeros(len(slots), np.float32))

    def at(self, kept: NDArray[np.bool_] | slice) -> History:
        """Return a part of the history."""
        return History._make(column[kept] for column in self)

    @property
    def last_visit(self) -> Column:
        """1 for the items of the last visit, else 0 (m,)."""
        return np.asarray(self.visits_ago == 0, np.float32)

    @property
    def recent(self) -> Column:
        """How much what follows each item within a visit counts (m,)."""
        return np.asarray(self.last_visit * np.exp(-self.ages / np.float32(MEMORY)), np.float32)


def in_time(days: NDArray[np.int64], places: NDArray[np.int64]) -> tuple[NDArray[np.int64], Column]:
    """Return (visits_ago, ages) of ratings (m,), oldest first, from their days and, within the last
    day, their places: equal places are of one age. A day of -1 is unknown, and so all before it."""
    m = len(days)
    ago, ages = np.full(m, OLDER, np.int64), np.zeros(m, np.float32)
    if not m or days[-1] < 0:
        return ago, ages
    days = np.maximum.accumulate(days)  # a clock that went back begins no visit
    distinct = np.unique(days)[::-1]
    ago = np.minimum(np.searchsorted(-distinct, -days), OLDER)
    last = ago == 0
    newer = np.unique(places[last], return_inverse=True)[1]
    ages[last] = newer.max(initial=0) - newer
    return ago, ages
