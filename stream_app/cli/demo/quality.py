"""How good the lists of a demo are: nDCG@10 on what some users liked later, which was never sent.

    held back     the last fifth of the ratings of up to 200 users; no device has them
    here          replies of the server over Kafka, without what the user has rated; of a campaign
                  the lists that devices make of its public side
    popular       the items with the most ratings

Lists that are below popularity, on the same users, by more than the standard error of the
difference end the demo with an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from consumers.recommendations import Recommendations
from murmurec.ratings import item_keys, user_keys
from producers.catalogue_reader import entries
from producers.datasets.load import Dataset
from producers.fleet.population import Population
from producers.ranking import RatedItem
from producers.ranking.campaign_ranker import CampaignRanker
from producers.ranking.ranker import LIKED_STARS
from stream_app.campaigns.public_side import PublicSide
from stream_app.cli.demo.setup import DemoSetup
from stream_app.errors import UserError
from stream_app.evaluation import ranking
from stream_app.evaluation.ranking.task import held_out
from stream_app.wire import LIST_LENGTH, Item, key_of, parse_item

K, USERS, LEAST_USERS = 10, 200, 30
_ANSWER_SECONDS = 10.0
Lists = Mapping[int, Sequence[int]]
"""Keys of items, best first, by the key of a user."""
MakeLists = Callable[[ranking.RankingTask, Sequence[int]], Lists]
"""Gives the lists of a deployment for the tested users, who are these of the population."""


@dataclass(frozen=True)
class ListQuality:
    """Mean nDCG@10 over `users` users; `above_popular`: served minus popular, on the same users."""

    served: float
    popular: float
    users: int
    above_popular: float
    above_popular_error: float

    @classmethod
    def measured(cls, task: ranking.RankingTask, replies: Lists) -> ListQuality:
        """Return the figures of the lists; ValueError for fewer than `LEAST_USERS` users."""
        served = ranking.gains_by_key(task, replies, K)
        popular = popular_gains(task)
        above, answered = ranking.difference(served, popular), ~np.isnan(served)
        if above.users < LEAST_USERS:
            raise ValueError(
                f"{above.users} users with a list and a later like; {LEAST_USERS} are needed, so "
                "take more ratings"
            )
        means = [ranking.Mean.over(gains[answered]).value for gains in (served, popular)]
        return cls(means[0], means[1], above.users, above.value, above.error)

    def __str__(self) -> str:
        return f"here {self.served:.3f}, popular {self.popular:.3f}"

    def facts(self) -> dict[str, float]:
        """Return what the page shows."""
        means = {"here": self.served, "popular": self.popular}
        return means | {"users": self.users, "error": self.above_popular_error, "k": K}

    def check(self) -> None:
        """Raise UserError where the lists are below popularity by more than chance."""
        if self.above_popular < -self.above_popular_error:
            below = ranking.Mean(-self.above_popular, self.above_popular_error, self.users)
            raise UserError(
                f"the lists are below the most popular items, by nDCG@10 {below} over "
                f"{self.users} users: take more ratings or a larger epsilon"
            )


class HeldBack:
    """The ratings of a demo in time order, of which `published` are sent and the rest is not; of up
    to `users` users something is held back, of all with None."""

    def __init__(self, dataset: Dataset, users: int | None = USERS) -> None:
        keys = user_keys(dataset.users)
        names, counts = np.unique(keys, return_counts=True)
        names = names[counts > 1]
        most = len(names) if users is None else min(len(names), users)
        some = np.linspace(0, len(names) - 1, most).astype(np.intp)
        self._held = held_out(keys, "user-time") & np.isin(keys, names[some])
        self._users, self._all = keys, dataset
        self.published = dataset.at(~self._held)

    def task(self) -> ranking.RankingTask:
        """Return what is ranked for whom; ValueError where no user has a later like."""
        dataset = self._all
        stars = _stars(dataset)
        liked, items = stars >= LIKED_STARS, item_keys(dataset.items)
        return ranking.ranking_task(self._users, items, stars, liked, held=self._held)

    def scope(self, most: int) -> list[Item]:
        """Return the most rated items, the most popular first: a public list, as of a shop."""
        names, counts = np.unique(self.published.items, return_counts=True)
        chosen = names[np.argsort(-counts, kind="stable")[:most]].tolist()
        return [parse_item(str(name)) for name in chosen]


def _stars(dataset: Dataset) -> NDArray[np.float64]:
    """Return each rating on 1 .. 5, (n,)."""
    return 1 + 4 * dataset.levels / (dataset.scale.levels - 1)


def server_lists(demo: DemoSetup, task: ranking.RankingTask, users: Sequence[int]) -> Lists:
    """Return the lists of the tested users, who are these of the population, as the server replies
    now, without what they have rated."""
    devices = [demo.population.devices[user].hex() for user in users]
    known = [set(task.items[task.history.of_user(n)[0]].tolist()) for n in range(len(users))]
    keys = task.users[task.tested].tolist()
    return dict(zip(keys, _asked(demo, devices, known), strict=False))


def device_lists(published: Dataset, task: ranking.RankingTask, side: PublicSide) -> Lists:
    """Return what the tested users' devices, which have the published ratings, make of a campaign's
    side and the catalogue."""
    users, keys, stars = user_keys(published.users), item_keys(published.items), _stars(published)
    names, first = np.unique(published.items, return_index=True)
    items: dict[int, Item] = dict(zip(keys[first].tolist(), names.tolist(), strict=True))
    catalogue = entries(set(items.values()), published.described)
    ranker = CampaignRanker(side, {key_of(each.item): each for each in catalogue})
    found = {}
    for user in task.users[task.tested].tolist():
        rows = np.flatnonzero(users == np.uint64(user))
        columns = keys[rows].tolist(), stars[rows].tolist()
        history = [RatedItem(items[key], key, given) for key, given in zip(*columns, strict=True)]
        found[user] = [each.item for each in ranker.rank(history, K)]
    return found


def popular_gains(task: ranking.RankingTask) -> NDArray[np.float64]:
    """Return the nDCG@10 of the most rated items for each tested user."""
    return ranking.user_gains(task, ranking.lists_of(task, ranking.baselines.popular(task), K))


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
            yield [item for item in map(key_of, found) if item not in rated][:K]


class Judged(NamedTuple):
    """The quality of the lists, or why it is not known."""

    quality: ListQuality | None
    absent: str = ""

    def check(self) -> None:
        """Raise UserError if the lists are known to be below popularity."""
        if self.quality is not None:
            self.quality.check()


def judged(held: HeldBack, population: Population, lists_of: MakeLists) -> Judged:
    """Return how good the lists of the tested users are now."""
    try:
        task = held.task()
        _, rows = np.unique(user_keys(held.published.users), return_index=True)
        users = population.users[rows[task.tested]].tolist()
        return Judged(ListQuality.measured(task, lists_of(task, users)))
    except ValueError as error:
        return Judged(None, str(error))
