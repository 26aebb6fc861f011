"""Lists of two users while the demo runs, beside those of a server that has the true ratings.

    server        asked over Kafka, as any reader may
    privacy off   `twin.py`: made in the demo from the true ratings published so far

Both users rate early, and lean to different genres where the world is generated, so the lists can
be judged by eye; how much two lists share says whether they are personal at all.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import nan

import numpy as np

from consumers.recommendations import Recommendations
from stream_app.cli.demo.gateway import SIDE_NAME
from stream_app.cli.demo.judged.twin import PrivacyOffTwin
from stream_app.cli.demo.report import Figures, UserLists
from stream_app.cli.demo.setup import DemoSetup
from stream_app.cli.output import described
from stream_app.errors import UserError
from stream_app.kafka import durable_file
from stream_app.ranking.compact_side import encode_side
from stream_app.ranking.item_side import ItemSide
from stream_app.wire import key_of

LENGTH = 10
_EARLY, _FEW = 5, 15  # users have this many ratings in the first fifth
_SECONDS = 5.0  # between two looks
_ANSWER_SECONDS = 2.0
_SAMPLED = 40  # users of the last comparison


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
