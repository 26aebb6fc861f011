"""How good the lists of a demo are: nDCG@10 on what some users liked later, which was never sent.

    held back     the last fifth of the ratings of up to 200 users; no device has them
    here          replies of the server over Kafka, without what the user has rated; of a campaign
                  the lists that devices make of its public side
    popular       the items with the most ratings
    privacy off   lists from the true ratings (`privacy_off.py`)

Lists that are below popularity, on the same users, by more than the standard error of the
difference end the demo with an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from consumers.recommendations import Recommendations
from murmurec.ratings import item_keys, user_keys
from producers.catalogue_reader import entries
from producers.datasets.load import Dataset
from producers.ranking import RatedItem
from producers.ranking.campaign_ranker import CampaignRanker
from producers.ranking.ranker import LIKED_STARS
from stream_app.campaigns.public_side import PublicSide
from stream_app.cli.demo.lists.people import Lists, People
from stream_app.cli.demo.lists.privacy_off import PrivacyOffTwin
from stream_app.cli.demo.setup import DemoSetup
from stream_app.errors import UserError
from stream_app.evaluation import ranking
from stream_app.evaluation.ranking.task import held_out
from stream_app.wire import LIST_LENGTH, Item, key_of, parse_item

K, USERS, LEAST_USERS = 10, 200, 30
_ANSWER_SECONDS = 10.0
MakeLists = Callable[[ranking.RankingTask, Sequence[int]], Lists]
"""Gives the lists of a deployment for the tested users, who are these of the population."""


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
        return f"{text}, with privacy off {self.privacy_off:.3f}"

    def facts(self) -> dict[str, float]:
        """Return what the page shows."""
        means = {"here": self.served, "popular": self.popular, "privacy_off": self.privacy_off}
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
        stars = 1 + 4 * dataset.levels / (dataset.scale.levels - 1)
        liked, items = stars >= LIKED_STARS, item_keys(dataset.items)
        return ranking.ranking_task(self._users, items, stars, liked, held=self._held)

    def scope(self, most: int) -> list[Item]:
        """Return the most rated items, the most popular first: a public list, as of a shop."""
        names, counts = np.unique(self.published.items, return_counts=True)
        chosen = names[np.argsort(-counts, kind="stable")[:most]].tolist()
        return [parse_item(str(name)) for name in chosen]


def server_lists(demo: DemoSetup, task: ranking.RankingTask, users: Sequence[int]) -> Lists:
    """Return the lists of the tested users, who are these of the population, as the server replies
    now, without what they have rated."""
    devices = [demo.population.devices[user].hex() for user in users]
    known = [set(task.items[task.history.of_user(n)[0]].tolist()) for n in range(len(users))]
    keys = task.users[task.tested].tolist()
    return dict(zip(keys, _asked(demo, devices, known), strict=False))


def device_lists(people: People, task: ranking.RankingTask, side: PublicSide) -> Lists:
    """Return what the tested users' devices make of a campaign's side and the catalogue."""
    catalogue = entries(set(people.items.values()), people.published.described)
    ranker = CampaignRanker(side, {key_of(each.item): each for each in catalogue})
    found = {}
    for user in task.users[task.tested].tolist():
        rows = np.flatnonzero(people.users == np.uint64(user))
        columns = people.keys[rows].tolist(), people.stars[rows].tolist()
        history = [
            RatedItem(people.items[key], key, stars) for key, stars in zip(*columns, strict=True)
        ]
        found[user] = [each.item for each in ranker.rank(history, K)]
    return found


def popular(task: ranking.RankingTask) -> Lists:
    """Return the most rated items that each tested user has not rated."""
    places = ranking.lists_of(task, ranking.baselines.popular(task), K)
    keys = task.users[task.tested].tolist()
    return {
        user: task.items[row[row >= 0]].tolist() for user, row in zip(keys, places, strict=True)
    }


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


@dataclass(frozen=True, eq=False)
class Comparison:
    """Three lists of each tested user: those of the deployment, popular, and with privacy off."""

    people: People
    task: ranking.RankingTask
    served: Lists
    popular: Lists
    privacy_off: Lists

    def fits(self) -> dict[str, float] | None:
        """Return the mean share of each list that is in genres that its user likes; None where no
        likes are known."""
        names = ("here", "popular", "privacy_off")
        lists = (self.served, self.popular, self.privacy_off)
        shares = {name: self.people.fit(each) for name, each in zip(names, lists, strict=True)}
        if not all(shares.values()):
            return None
        return {name: float(np.mean(list(each.values()))) for name, each in shares.items()}

    def shown(self) -> list[int]:
        """Return two users of middling lists."""
        keys = self.task.users[self.task.tested].tolist()
        gains = ranking.gains_by_key(self.task, self.served, K).tolist()
        return self.people.shown(dict(zip(keys, gains, strict=True)), self.people.fit(self.served))

    def later(self, user: int) -> set[int]:
        """Return what a tested user liked later."""
        place = self.task.users[self.task.tested].tolist().index(user)
        return set(self.task.items[self.task.relevant.of_user(place)[0]].tolist())


class Judged(NamedTuple):
    """The lists, where there are any to compare, and their quality, or why it is not known."""

    found: Comparison | None
    quality: ListQuality | None
    absent: str = ""

    @property
    def genres(self) -> dict[str, float] | None:
        """The share of a list in genres that its user likes."""
        return None if self.found is None else self.found.fits()


def judged(held: HeldBack, people: People, twin: PrivacyOffTwin, lists_of: MakeLists) -> Judged:
    """Return the three lists of each tested user, as they are now."""
    found = None
    try:
        task = held.task()
        _, rows = np.unique(people.users, return_index=True)
        users = twin.population.users[rows[task.tested]].tolist()
        count = twin.population.rows
        clear = twin.lists(twin.side(count), count, users, K)
        off = dict(zip(task.users[task.tested].tolist(), clear, strict=True))
        found = Comparison(people, task, lists_of(task, users), popular(task), off)
        return Judged(found, ListQuality.measured(task, found.served, off))
    except ValueError as error:
        return Judged(found, None, str(error))
