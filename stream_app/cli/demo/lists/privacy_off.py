"""Lists with privacy off, which only a demo can make: from the true ratings that were published so
far, by the derivation and ranking of a deployment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from producers.fleet.population import Population
from producers.ranking.ranker import LIKED_STARS, Ranker, Rated
from stream_app.cli.demo.setup import SIDE_NAME
from stream_app.kafka import durable_file
from stream_app.ranking.compact_side import encode_side
from stream_app.ranking.derivation import derive
from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.pair_counts import RATED, PairCounts

_HEAD = 1024  # items: their table is made again every few seconds


def write_side(folder: Path, side: ItemSide) -> None:
    """Give the page the item side without noise; a reader never sees half a file."""
    durable_file.replace(folder / SIDE_NAME, encode_side(side), durable_file.SHARED)


class PrivacyOffTwin:
    """Lists from the first rows of a population; `stars` (n,): the true ratings on 1 .. 5."""

    def __init__(self, population: Population, stars: NDArray[np.float64]) -> None:
        self.population, self._stars = population, stars
        keys, rows, counts = np.unique(population.items, return_inverse=True, return_counts=True)
        head = np.sort(np.argsort(-counts, kind="stable")[:_HEAD])
        self._keys = keys[head]
        slots = np.full(len(keys), -1, np.int64)
        slots[head] = np.arange(len(head))
        self._slots = slots[rows]

    def side(self, rows: int) -> ItemSide:
        """Return what goes together in the first `rows` ratings."""
        return derive(self._counts(rows), self._means(rows)).side

    def lists(self, side: ItemSide, rows: int, users: Sequence[int], count: int) -> list[list[int]]:
        """Return the keys of the best `count` items of some users (indices of the population's
        devices), from the first `rows` ratings; empty lists while there are too few."""
        ranker = Ranker(side)
        return [self._list(ranker, rows, user, count) for user in users]

    def _list(self, ranker: Ranker, rows: int, user: int, count: int) -> list[int]:
        own = np.flatnonzero(self.population.users[:rows] == user)
        history, stars = self.population.items[own].tolist(), self._stars[own].tolist()
        return [found.item for found in ranker.rank(Rated.untimed(history, stars), count)]

    def _counts(self, rows: int) -> PairCounts:
        """Return the moments of what the users have, as a server counts them."""
        users, slots = self.population.users[:rows], self._slots[:rows]
        known = slots >= 0
        reports = np.bincount(slots[known], minlength=len(self._keys)).astype(np.float32)
        x = np.zeros((len(self.population.devices), len(self._keys)), np.float32)
        x[users[known], slots[known]] = np.where(self._stars[:rows][known] >= LIKED_STARS, 1, RATED)
        active, nothing = float(len(np.unique(users))), np.zeros(len(reports), np.float32)
        return PairCounts(
            self._keys, x.T @ x, (x * x).sum(axis=0), x.sum(axis=0),
            np.full(len(reports), active, np.float32), reports, None, None, nothing, 0.0,
            float(rows), active, None, cut=0,
        )  # fmt: skip

    def _means(self, rows: int) -> NDArray[np.float32]:
        slots = self._slots[:rows]
        known = slots >= 0
        counts = np.bincount(slots[known], minlength=len(self._keys))
        sums = np.bincount(slots[known], self._stars[:rows][known], minlength=len(self._keys))
        return (sums / np.maximum(counts, 1)).clip(1, 5).astype(np.float32)
