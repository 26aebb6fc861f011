"""How good the lists of a demo are: nDCG@10 on what some users liked later, which was never sent.

    held back     the last fifth of the ratings of up to 200 users; no device has them
    here          replies of the server over Kafka, without what the user has rated
    popular       the items with the most published ratings
    privacy off   lists from the true ratings (`lists.py`)

Lists that are below popularity, on the same users, by more than the standard error of the
difference end the demo with an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from consumers.recommendations import Recommendations
from murmurec.ratings import item_keys, user_keys
from producers.datasets.load import Dataset
from producers.ranking.ranker import LIKED_STARS
from stream_app.cli.demo.sample_lists import PrivacyOffTwin
from stream_app.cli.demo.setup import DemoSetup
from stream_app.errors import UserError
from stream_app.evaluation import ranking
from stream_app.evaluation.ranking.task import held_out
from stream_app.wire import LIST_LENGTH, key_of

K, USERS, LEAST_USERS = 10, 200, 30
_ANSWER_SECONDS = 10.0
Lists = Mapping[int, Sequence[int]]
"""Keys of items, best first, by the key of a user."""


@dataclass(frozen=True)
class ListQuality:
    """Mean nDCG@10 over `users` users; `above_popular`: served minus popular, on the same users."""

    served: float
    popular: float
    privacy_off: float
    users: int
    above_popular: float
    above_popular_error: float

    @classmethod
    def measured(cls, task: ranking.RankingTask, replies: Lists, privacy_off: Lists) -> ListQuality:
        """Return the figures of the lists; ValueError for fewer than `LEAST_USERS` users."""
        served, clear = (ranking.gains_by_key(task, lists, K) for lists in (replies, privacy_off))
        popular = ranking.user_gains(
            task, ranking.lists_of(task, ranking.baselines.popular(task), K)
        )
        above, answered = ranking.difference(served, popular), ~np.isnan(served)
        if above.users < LEAST_USERS:
            raise ValueError(
                f"{above.users} users with a list and a later like; {LEAST_USERS} are needed, so "
                "take more ratings"
            )
        means = [ranking.Mean.over(gains[answered]).value for gains in (served, popular, clear)]
        return cls(means[0], means[1], means[2], above.users, above.value, above.error)

    def __str__(self) -> str:
        text = f"here {self.served:.3f}, popular {self.popular:.3f}"
        return f"{text}, privacy off {self.privacy_off:.3f}"

    def check(self) -> None:
        """Raise UserError where the lists are below popularity by more than chance."""
        if self.above_popular < -self.above_popular_error:
            below = ranking.Mean(-self.above_popular, self.above_popular_error, self.users)
            raise UserError(
                f"the lists are below the most popular items, by nDCG@10 {below} over "
                f"{self.users} users: take more ratings or a larger epsilon"
            )


class HeldBack:
    """The ratings of a demo in time order, of which `published` are sent and the rest is not."""

    def __init__(self, dataset: Dataset) -> None:
        users = user_keys(dataset.users)
        names, counts = np.unique(users, return_counts=True)
        names = names[counts > 1]
        some = np.linspace(0, len(names) - 1, min(len(names), USERS)).astype(np.intp)
        self._held = held_out(users, "user-time") & np.isin(users, names[some])
        self._users, self._all = users, dataset
        self.published = dataset.at(~self._held)

    def task(self) -> ranking.RankingTask:
        """Return what is ranked for whom; ValueError where no user has a later like."""
        dataset = self._all
        stars = 1 + 4 * dataset.levels / (dataset.scale.levels - 1)
        liked, items = stars >= LIKED_STARS, item_keys(dataset.items)
        return ranking.ranking_task(self._users, items, stars, liked, held=self._held)

    def measured(self, demo: DemoSetup, twin: PrivacyOffTwin) -> ListQuality:
        """Return the quality of the lists that the worker serves now; ValueError where there are
        too few likes or answers."""
        task, population = self.task(), demo.population
        _, rows = np.unique(user_keys(self.published.users), return_index=True)
        users = population.users[rows[task.tested]].tolist()
        keys = task.users[task.tested].tolist()
        side = twin.side(population.rows)
        clear = twin.lists(side, population.rows, users, K)
        devices = [population.devices[user].hex() for user in users]
        known = [set(task.items[task.history.of_user(n)[0]].tolist()) for n in range(len(users))]
        replies = dict(zip(keys, _asked(demo, devices, known), strict=False))
        return ListQuality.measured(task, replies, dict(zip(keys, clear, strict=True)))


def _asked(
    demo: DemoSetup, devices: Sequence[str], known: Sequence[set[int]]
) -> Iterator[list[int]]:
    """Yield the server's lists, without items that are known, until one is not answered."""
    with Recommendations(demo.connection, demo.topics.prefix) as server:
        for device, rated in zip(devices, known, strict=True):
            try:
                found = server.best(device, LIST_LENGTH, _ANSWER_SECONDS).items
            except UserError:
                return
            yield [item for item in map(key_of, found) if item not in rated]
