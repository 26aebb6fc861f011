"""The cells of a public scope, and the reports that devices send about them.

A device reports every cell of the scope once, in one record, with its cells in random order; the
devices come in random order. The scope models a public list of popular items: the most rated ones
of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import RandomSource

_BATCH = 8192

Batch = tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint8]]


def most_rated_items(items: NDArray[np.uint64], count: int) -> NDArray[np.uint64]:
    """Return the `count` most rated items, by key; ties go to the smaller key."""
    keys, counts = np.unique(items, return_counts=True)
    if not 1 <= count <= len(keys):
        raise ValueError(f"scope {count}: the data have 1 to {len(keys)} items")
    return np.sort(keys[np.argsort(-counts, kind="stable")[:count]])


class ScopeCells(NamedTuple):
    """Keys of people (p,) and of the scope (s,), sorted; levels (p, s) uint8 of their ratings.

    A cell without a rating holds the number of levels.
    """

    people: NDArray[np.uint64]
    scope: NDArray[np.uint64]
    levels: NDArray[np.uint8]

    @classmethod
    def holding(
        cls,
        people: NDArray[np.uint64],
        scope: NDArray[np.uint64],
        ratings: tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint8]],
        missing: int,
    ) -> Self:
        """Return the cells with these ratings, users, items and levels (n,), all in the scope."""
        users, items, levels = ratings
        cells = np.full((len(people), len(scope)), missing, np.uint8)
        cells[np.searchsorted(people, users), np.searchsorted(scope, items)] = levels
        return cls(people, scope, cells)

    def sent(self, mechanism: Mechanism, source: RandomSource, seed: int) -> Iterator[Batch]:
        """Yield batches of reports: counts, users, items and reports of whole scopes."""
        random = np.random.default_rng(seed)
        order, width = random.permutation(len(self.people)), len(self.scope)
        some = max(1, _BATCH // width)
        for first in range(0, len(self.people), some):
            rows = order[first : first + some]
            places = random.permuted(np.tile(np.arange(width), (len(rows), 1)), axis=1)
            inputs = np.take_along_axis(self.levels[rows], places, 1).reshape(-1)
            yield (
                np.full(len(rows), width, np.int64),
                np.repeat(self.people[rows], width),
                self.scope[places].reshape(-1),
                mechanism.release(inputs, source),
            )
