"""What devices learn, what is held out, and the lists that they make: nDCG beside popularity.

Each user's last fifth of the ratings is held out. A device's history is the rest, the same that it
has contributed with; its list is what `murmurec recommend --local` shows.
"""

from __future__ import annotations

import numpy as np

from murmurec.ratings import item_keys, user_keys
from producers.datasets.load import Dataset
from producers.ranking import RatedItem
from producers.ranking.campaign_ranker import CampaignRanker
from producers.ranking.in_scope import LIKED_STARS
from stream_app.campaigns.public_side import PublicSide
from stream_app.evaluation.ranking import (
    RankingRow,
    RankingTask,
    Way,
    baselines,
    lists_of,
    ranking_task,
    row_of,
)
from stream_app.wire import Item

K = 10


class Judge:
    """The task of one data set, in time order; `learned` are the rows that devices have."""

    def __init__(self, dataset: Dataset) -> None:
        dataset = dataset.in_time_order()
        scale = dataset.scale
        stars = 1 + 4 * dataset.levels / (scale.levels - 1)
        users, items = user_keys(dataset.users), item_keys(dataset.items)
        self.task: RankingTask = ranking_task(users, items, stars, stars >= LIKED_STARS)
        rows = self.task.rows
        self.learned = dataset.at(rows)
        self._stars, self._keys = stars[rows], items[rows]
        self._items = self.learned.items

    def scope(self, most: int) -> list[Item]:
        """Return the most rated items, the most popular first: a public list, as of a shop."""
        names, counts = np.unique(self._items, return_counts=True)
        chosen: list[Item] = names[np.argsort(-counts, kind="stable")[:most]].tolist()
        return chosen

    def lists(self, side: PublicSide) -> RankingRow:
        """Return the figures of the tested users' own lists."""
        ranker, found = CampaignRanker(side), np.full((len(self.task.tested), K), -1, np.intp)
        for row, user in enumerate(self.task.tested.tolist()):
            listed = ranker.rank(self._history(user), K)
            keys = np.array([each.item for each in listed], np.uint64)
            found[row, : len(keys)] = np.searchsorted(self.task.items, keys)
        return row_of(self.task, Way("together", "device", "clean, by recency", found))

    def popular(self) -> RankingRow:
        """Return the figures of the most rated items that a user has not rated."""
        lists = lists_of(self.task, baselines.popular(self.task), K)
        return row_of(self.task, Way("popular", "baseline", "none", lists))

    def _history(self, user: int) -> list[RatedItem]:
        rows = np.flatnonzero(self.task.learned.users == user)
        return [
            RatedItem(item, key, stars)
            for item, key, stars in zip(
                self._items[rows].tolist(),
                self._keys[rows].tolist(),
                self._stars[rows].tolist(),
                strict=True,
            )
        ]
