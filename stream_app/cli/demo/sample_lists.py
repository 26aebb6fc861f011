"""Lists of the server beside those of the same users with privacy off, which only a demo knows.

    server        asked over Kafka, as any reader may
    privacy off   pairs of liked items from the true ratings published so far: the same derivation
                  and ranking

Two users are followed while the demo runs. Both rate early, and lean to different genres where the
world is generated, so the lists can be judged by eye; how much two lists share says whether they
are personal at all. Three users' recommendations are printed at the end.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, zip_longest
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumers.recommendations import Recommendations
from producers.fleet.population import Population
from producers.ranking.ranker import LIKED_STARS, Ranker, Rated
from stream_app.cli.demo.demo_processes import SIDE_NAME
from stream_app.cli.demo.figures import Figures, UserLists
from stream_app.cli.demo.setup import DemoSetup
from stream_app.cli.output import described, say, table
from stream_app.errors import UserError
from stream_app.kafka import durable_file
from stream_app.ranking.compact_side import encode_side
from stream_app.ranking.derivation import derive
from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.pair_counts import RATED, PairCounts
from stream_app.wire import key_of

LENGTH = 10
_EARLY, _FEW = 5, 15  # users have this many ratings in the first fifth
_SECONDS = 5.0  # between two looks
_ANSWER_SECONDS = 2.0
_SAMPLED = 40  # users of the last comparison
_HEAD = 1024  # items: their table is made again every few seconds
_LIKED = 5
_QUARTERS = (1, 2, 3)
_RATED = "what the user rated highly (only the device knows)"
_RECOMMENDED = "what the server recommends, and the rating it predicts"


@dataclass(frozen=True)
class Tastes:
    """The genres that each user leans to, the favourite first; empty for a file of ratings."""

    genres: Mapping[int, tuple[str, ...]]

    def favourite(self, user: object) -> str:
        """Return the favourite genre of a user, or its id where tastes are unknown."""
        return (*self.genres.get(user, ()), str(user))[0]  # type: ignore[call-overload,no-any-return]

    def text(self, user: object) -> str:
        """Return a user's id and genres in words."""
        genres = self.genres.get(user, ())  # type: ignore[call-overload]
        return f"user {user}" + (f", likes {' and '.join(genres)}" if genres else "")


class DemoLists:
    """Asks for the lists of two users now and then and puts them into the figures."""

    def __init__(self, demo: DemoSetup, tastes: Tastes) -> None:
        self._demo, self._tastes = demo, tastes
        population, dataset = demo.population, demo.dataset
        self._names = np.unique(dataset.users)
        items = dict(zip(population.items.tolist(), dataset.items.tolist(), strict=True))
        known = dataset.described or {}
        self._titles = {
            key: described(*known[name]) if name in known else str(name)
            for key, name in items.items()
        }
        values = population.scale.values
        stars = 1.0 + 4.0 * (dataset.ratings - values[0]) / (values[-1] - values[0])
        self.twin = PrivacyOffTwin(population, stars)
        self._users, self._looked = self._two_users(), 0.0
        self._server = Recommendations(demo.connection, demo.topics.prefix)

    def close(self) -> None:
        """Leave the broker."""
        self._server.close()

    def update(self, figures: Figures, rows: int) -> None:
        """Ask again if the last lists are old; `rows` ratings of the population are published."""
        if time.monotonic() - self._looked < _SECONDS:
            return
        server, clear = self._lists(self._users, rows)
        figures.lists = tuple(
            UserLists(self._tastes.text(self._names[user].item()), tuple(asked), tuple(off))
            for user, asked, off in zip(self._users, server, clear, strict=True)
        )
        figures.lists_shared, figures.lists_shared_clear = shared(server), shared(clear)
        self._looked = time.monotonic()

    def finish(self, figures: Figures) -> None:
        """Look once more, and compare the lists of many users."""
        rows, self._looked = self._demo.population.rows, 0.0
        self.update(figures, rows)
        number = len(self._names)
        users = np.unique(np.linspace(0, number - 1, min(number, _SAMPLED)).astype(int)).tolist()
        server, clear = self._lists(users, rows)
        figures.lists_shared, figures.lists_shared_clear = shared(server), shared(clear)

    def _two_users(self) -> list[int]:
        """Return two users who rate early, neither little nor most of what they like; with
        different favourites where these are known."""
        users, number = self._demo.population.users, len(self._names)
        early = np.bincount(users[: max(1, len(users) // _EARLY)], minlength=number)
        counts = np.bincount(users, minlength=number)
        usual = np.abs(counts - np.median(counts))
        order = np.lexsort((usual, early < _FEW)).tolist()
        favourites = [self._tastes.favourite(self._names[user].item()) for user in order]
        other = next((n for n, name in enumerate(favourites) if name != favourites[0]), None)
        return order[:1] if other is None else [order[0], order[other]]

    def _lists(self, users: Sequence[int], rows: int) -> tuple[list[list[str]], list[list[str]]]:
        """Return the titles of the lists of some users, the server's and those without privacy."""
        server = [self._asked(self._demo.population.devices[user].hex()) for user in users]
        side = self.twin.side(rows)
        self._write(side)
        clear = self.twin.lists(side, rows, users, LENGTH)
        return server, [[self._titles[key] for key in keys] for keys in clear]

    def _write(self, side: ItemSide) -> None:
        """Give the page the item side without noise; a reader never sees half a file."""
        whole = self._demo.folder / SIDE_NAME
        durable_file.replace(whole, encode_side(side), durable_file.SHARED)

    def _asked(self, pseudonym: str) -> list[str]:
        try:
            items = self._server.best(pseudonym, LENGTH, _ANSWER_SECONDS).items
        except UserError:
            return []  # a busy worker: the lists are asked for again
        return [self._titles.get(key_of(item), str(item)) for item in items]


def shared(lists: Sequence[Sequence[str]]) -> float:
    """Return the mean share of two lists that is in both; NaN with fewer than two lists."""
    shares = [
        len(set(left) & set(right)) / min(len(left), len(right))
        for left, right in combinations(lists, 2)
        if left and right
    ]
    return float(np.mean(shares)) if shares else nan


class PrivacyOffTwin:
    """Lists from the first rows of a population; `stars` (n,): the true ratings on 1 .. 5."""

    def __init__(self, population: Population, stars: NDArray[np.float64]) -> None:
        self._population, self._stars = population, stars
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
        own = np.flatnonzero(self._population.users[:rows] == user)
        history, stars = self._population.items[own].tolist(), self._stars[own].tolist()
        return [found.item for found in ranker.rank(Rated.untimed(history, stars), count)]

    def _counts(self, rows: int) -> PairCounts:
        """Return the moments of what the users have, as a server counts them."""
        users, slots = self._population.users[:rows], self._slots[:rows]
        known = slots >= 0
        reports = np.bincount(slots[known], minlength=len(self._keys)).astype(np.float32)
        x = np.zeros((len(self._population.devices), len(self._keys)), np.float32)
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


def show_sample_answers(demo: DemoSetup) -> None:
    """Query and print the top 10 of users with few, a middling number, and many ratings."""
    dataset, population = demo.dataset, demo.population
    names, counts = np.unique(dataset.users, return_counts=True)
    order = np.argsort(counts, kind="stable")
    low, high = population.scale.values[0], population.scale.values[-1]
    with Recommendations(demo.connection, demo.topics.prefix) as queries:
        for user in order[[len(order) * quarter // 4 for quarter in _QUARTERS]]:
            rows = np.flatnonzero(dataset.users == names[user])
            best = rows[np.argsort(-dataset.ratings[rows], kind="stable")[:_LIKED]]
            liked = [
                f"{_title(demo, dataset.items[row])} ({dataset.ratings[row]:g})" for row in best
            ]
            answer = queries.best(population.devices[user].hex(), 10, 5.0)
            recommended = [
                (_title(demo, item), f"{low + (score - 1.0) * (high - low) / 4.0:.2f}")
                for item, score in zip(answer.items, answer.scores, strict=True)
            ]
            say(f"\nuser {names[user]}, recommended by {answer.method}")
            pairs = zip_longest(liked, recommended)
            lines = [(rated or "", *(answer or ("", ""))) for rated, answer in pairs]
            table((_RATED, _RECOMMENDED, ""), lines)


def _title(demo: DemoSetup, item: Any) -> str:
    item = item.item() if isinstance(item, np.generic) else item
    found = (demo.dataset.described or {}).get(item)
    return described(*found) if found else str(item)
