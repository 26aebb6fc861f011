"""Synthetic ratings of users whose taste is known, so the smallest possible error is known too.

Every item is of one genre, which is public; every user leans to one, two or three genres
(l_ug = 1, .7, .5, else 0). The leaning decides what a user rates as well as how.

    s_ui = mean + b_u + b_i + a l_ug(i) + p_u . q_i    planted score; p, q of `factors` components
    P(r <= k | s) = 1 / (1 + exp(-(k + 1/2 - s) / t))  k = 1 .. 4: logistic noise, rounded into 1..5

so every cell has an exact distribution over 1..5. No predictor has a smaller expected squared error
than the conditional mean m(s) = sum_k k P(k | s), and its error is the conditional variance:

    best_rmse = sqrt( mean over rows of sum_k (k - m)^2 P(k | s) )

Which items a user rates depends on popularity (Zipf), on the leaning and a little on the score,
never on the noise. Users arrive over the whole time and rate in sittings. The titles are invented.
Every number follows from the seed; the users are simulated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from producers.datasets.columns import Description, Descriptions
from producers.datasets.load import Dataset
from producers.scale import Scale

_START = 1_735_689_600  # 2025-01-01: when the generated time begins
_DAY = 86_400
_WIDTH = 0.45  # t: width of the logistic noise, in stars
_LEANINGS = (1.0, 0.7, 0.5)  # l_ug of a user's genres, the favourite first
_STARS_OF_LEANING = 0.7  # a
_PULL_OF_LEANING = 3.0  # how much likelier a user rates a genre, as a logarithm
GENRES = (
    *("western", "mystery", "space", "romance", "musical", "war"),
    *("comedy", "horror", "fantasy", "nature", "crime", "sport"),
)
_FIRST = """
    Amber Brass Cedar Distant Early Fallow Gilded Hollow Idle Jade Kindled Lunar Mellow
    Northern Opal Paper Quiet Russet Silver Tidal Umber Velvet Winter Yellow Zephyr
""".split()  # noqa: SIM905 (readable)
_SECOND = """
    Anchor Bridge Canyon Dance Ember Ferry Garden Harbour Island Journey Kite Lantern Meadow
    Nocturne Orchard Parade Quarry River Station Tower Underpass Valley Waltz Year Zodiac
""".split()  # noqa: SIM905 (readable)
_THIRD = ("", "Return", "Story", "Hour")


@dataclass(frozen=True, eq=False)
class World:
    """A generated data set in time order, the best rating prediction of each row, and its error.

    expected (n,): conditional mean of each row's rating. genres (items,): index into `GENRES` of
    item 1, 2, ... . leanings (users, len(GENRES)): l_ug of user 1, 2, ... .
    """

    dataset: Dataset
    expected: NDArray[np.float64] = field(repr=False)
    best_rmse: float
    genres: NDArray[np.int64] = field(repr=False)
    leanings: NDArray[np.float64] = field(repr=False)

    def favourites(self) -> dict[int, tuple[str, ...]]:
        """Return the names of the genres that each user leans to, the favourite first."""
        order = np.argsort(-self.leanings, axis=1, kind="stable")
        numbers = (self.leanings > 0).sum(axis=1)
        return {
            user: tuple(GENRES[genre] for genre in row[:number])
            for user, (row, number) in enumerate(zip(order, numbers, strict=True), start=1)
        }


def generate(
    seed: int = 1,
    *,
    users: int = 3000,
    items: int = 2000,
    ratings: int = 300_000,
    factors: int = 6,
    days: int = 60,
) -> World:
    """Return the world of a seed with about `ratings` ratings; users and items count from 1."""
    if min(users, items, factors, days) < 1 or items > len(_FIRST) * len(_SECOND) * len(_THIRD):
        raise ValueError(
            f"world of {users} users and {items} items: 1 or more, and 2500 titles at most"
        )
    if not users <= ratings <= users * items // 2:
        raise ValueError(f"{ratings} ratings: between one per user and half of all cells")
    random = np.random.Generator(np.random.PCG64(seed))
    taste = _taste(random, users, items, factors)
    user, item, when = _occasions(random, taste, ratings, days)
    planted = taste.scores[user, item]
    odds = probabilities(planted)
    stars = np.arange(1.0, 6.0)
    expected = odds @ stars
    best_rmse = float(np.sqrt((odds @ stars**2 - expected**2).mean()))
    drawn = (random.random(len(user))[:, None] > np.cumsum(odds, axis=1)[:, :4]).sum(axis=1)
    dataset = Dataset(
        user + 1,
        item + 1,
        drawn + 1.0,
        drawn.astype(np.uint8),
        when,
        _described(random, taste.genres),
        Scale(1, 5, 1),
        f"generated world {seed}",
    )
    return World(dataset, expected, best_rmse, taste.genres, taste.leanings)


def probabilities(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return P(rating = 1..5 | score), shape (n, 5)."""
    below = 1.0 / (1.0 + np.exp(-(np.arange(1.5, 5.0) - scores[:, None]) / _WIDTH))
    edges = np.hstack([np.zeros((len(scores), 1)), below, np.ones((len(scores), 1))])
    return np.diff(edges, axis=1)


class _Taste(NamedTuple):
    """What is planted: genres (items,), leanings (users, genres), scores (users, items)."""

    genres: NDArray[np.int64]
    leanings: NDArray[np.float64]
    scores: NDArray[np.float64]


def _taste(random: np.random.Generator, users: int, items: int, factors: int) -> _Taste:
    genres = random.integers(len(GENRES), size=items)
    favourites = random.permuted(np.tile(np.arange(len(GENRES)), (users, 1)), axis=1)
    leanings = np.zeros((users, len(GENRES)))
    number = random.integers(1, len(_LEANINGS) + 1, users)
    for place, leaning in enumerate(_LEANINGS):
        leanings[np.arange(users), favourites[:, place]] = np.where(place < number, leaning, 0.0)
    deviation = random.standard_normal((users, factors)) @ random.standard_normal((factors, items))
    scores = 3.3 + random.normal(0.0, 0.35, users)[:, None] + random.normal(0.0, 0.45, items)
    scores += _STARS_OF_LEANING * leanings[:, genres] + 0.45 * deviation / np.sqrt(factors)
    return _Taste(genres, leanings, scores)


def _occasions(
    random: np.random.Generator, taste: _Taste, ratings: int, days: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return (user, item, time) of every rating, in time order; no cell occurs twice."""
    users, items = taste.scores.shape
    shares = np.asarray(random.lognormal(0.0, 0.9, users))
    factor = ratings / shares.sum()
    for _ in range(20):  # no user rates more than half of the items: the other users rate more
        counts = np.clip(np.rint(shares * factor), 1, max(1, items // 2)).astype(np.int64)
        factor *= ratings / counts.sum()
    appeal = -0.8 * np.log1p(random.permutation(items))
    chosen, times = [], []
    for place, count in enumerate(counts.tolist()):
        # The largest of weight + Gumbel noise are a draw without repetition (Vieira 2014).
        pull = _PULL_OF_LEANING * taste.leanings[place, taste.genres]
        luck = appeal + pull + 0.3 * taste.scores[place] + random.gumbel(size=items)
        chosen.append(random.permutation(np.argpartition(-luck, count - 1)[:count]))
        times.append(_sittings(random, count, days))
    user = np.repeat(np.arange(users, dtype=np.int64), counts)
    item, when = np.concatenate(chosen), np.concatenate(times)
    order = np.argsort(when, kind="stable")
    return user[order], item[order], when[order] + _START


def _sittings(random: np.random.Generator, count: int, days: int) -> NDArray[np.int64]:
    """Return rising times of one user: sittings of about twenty ratings, half a minute apart."""
    sittings = -(-count // 20)
    joined = random.uniform(0.0, 0.8)
    begins = np.sort(random.uniform(joined, 1.0, sittings)) * days * _DAY
    steps = np.cumsum(random.exponential(30.0, count))
    return np.sort(begins[np.arange(count) // 20] + steps).astype(np.int64)


def _described(random: np.random.Generator, genres: NDArray[np.int64]) -> Descriptions:
    words = [" ".join(filter(None, three)) for three in product(_FIRST, _SECOND, _THIRD)]
    order = random.permutation(len(words))[: len(genres)]
    rows = zip(order.tolist(), genres.tolist(), strict=True)
    return {
        item: Description(words[place], (GENRES[genre],))
        for item, (place, genre) in enumerate(rows, start=1)
    }
