"""Synthetic ratings of users whose taste is known, so the best prediction is known too.

Every item is of one genre, which is public, as its year is; every user leans to one, two or three
genres (l_ug = 1, .7, .5, else 0). The leaning decides what a user rates as well as how.

    s_ui = mean + b_u + b_i + a l_ug(i) + p_u . q_i    planted score; p, q of `factors` components
    P(r <= k | s) = 1 / (1 + exp(-(k + 1/2 - s) / t))  k = 1 .. 4: logistic noise, rounded into 1..5

so every cell has an exact distribution over 1..5. No predictor has a smaller expected squared error
than the conditional mean m(s) = sum_k k P(k | s).

The first component of q is the year: users differ in the age of what they like. What a user rates
is drawn without repetition, likelier items first, with the log weights

    - e sqrt(rank / items) + g l_ug(i) + c s_ui + f z_us(i)    z: normal; s(i): the series of i

with other factors on the first visit than later; what is rated depends on the score, and not on the
noise of the rating. A user rates most on the first visit, and six of ten never come back; of the
others most do soon, and a few for the rest of the time. A visit is within one day of UTC. Sizes of
histories, popularity, visits and the worth of lists (popular, EASE, devices) were compared with
those of MovieLens-1M (`tests/benchmarks/worlds.py`). The titles are invented. Every number follows
from the seed; the users are simulated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from producers.datasets.columns import Description, Descriptions
from producers.datasets.load import Dataset
from producers.datasets.synthetic.titles import GENRES, SERIES, TITLES, Titles, titles, years
from producers.scale import Scale

_WIDTH = 0.45  # t: width of the logistic noise, in stars
_LEANINGS = (1.0, 0.7, 0.5)  # l_ug of a user's genres, the favourite first
_STARS_OF_LEANING = 0.45  # a
_STARS_OF_FACTORS = 0.3
_QUALITY = 0.5  # correlation of b_i with popularity


class _Pull(NamedTuple):
    """e, g, c and f: logarithms of how much likelier an item is rated."""

    popularity: float
    leaning: float
    score: float
    series: float


_FIRST, _LATER = _Pull(8.0, 2.8, 0.9, 1.1), _Pull(4.2, 1.6, 0.7, 0.75)


@dataclass(frozen=True, eq=False)
class World:
    """A generated data set in time order, and the best rating prediction of each row.

    expected (n,): conditional mean of each row's rating. genres (items,): index into `GENRES` of
    item 1, 2, ... . leanings (users, len(GENRES)): l_ug of user 1, 2, ... .
    """

    dataset: Dataset
    expected: NDArray[np.float64] = field(repr=False)
    genres: NDArray[np.int64] = field(repr=False)
    leanings: NDArray[np.float64] = field(repr=False)


def generate(
    seed: int = 1,
    *,
    users: int = 3000,
    items: int = 2000,
    ratings: int = 300_000,
    factors: int = 6,
    days: int = 365,
) -> World:
    """Return the world of a seed with about `ratings` ratings; users and items count from 1."""
    most = TITLES * len(GENRES)
    if min(users, items, factors, days) < 1 or items > most:
        raise ValueError(
            f"world of {users} users, {items} items ({most} at most), {factors} factors and {days} "
            "days: give 1 of each at least"
        )
    if not users <= ratings <= users * items // 2:
        raise ValueError(f"{ratings} ratings: between one per user and half of all cells")
    random = np.random.Generator(np.random.PCG64(seed))
    taste = _taste(random, users, items, factors)
    user, item, when = _occasions(random, taste, ratings, days)
    planted = taste.scores[user, item]
    odds = probabilities(planted)
    drawn = (random.random(len(user))[:, None] > np.cumsum(odds, axis=1)[:, :4]).sum(axis=1)
    dataset = Dataset(
        user + 1,
        item + 1,
        drawn + 1.0,
        drawn.astype(np.uint8),
        when,
        _described(taste),
        Scale(1, 5, 1),
        f"generated world {seed}",
    )
    return World(dataset, odds @ np.arange(1.0, 6.0), taste.genres, taste.leanings)


def probabilities(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return P(rating = 1..5 | score), shape (n, 5)."""
    below = 1.0 / (1.0 + np.exp(-(np.arange(1.5, 5.0) - scores[:, None]) / _WIDTH))
    edges = np.hstack([np.zeros((len(scores), 1)), below, np.ones((len(scores), 1))])
    return np.diff(edges, axis=1)


class _Taste(NamedTuple):
    """What is planted: genres, titles, years and popularity (items,), leanings (users, genres),
    fondness (users, SERIES), scores (users, items); popularity: -sqrt(rank / items)."""

    genres: NDArray[np.int64]
    titles: Titles
    years: NDArray[np.int64]
    popularity: NDArray[np.float64]
    leanings: NDArray[np.float64]
    fondness: NDArray[np.float64]
    scores: NDArray[np.float64]


def _taste(random: np.random.Generator, users: int, items: int, factors: int) -> _Taste:
    genres = random.permutation(np.arange(items) % len(GENRES))
    favourites = random.permuted(np.tile(np.arange(len(GENRES)), (users, 1)), axis=1)
    leanings = np.zeros((users, len(GENRES)))
    number = random.integers(1, len(_LEANINGS) + 1, users)
    for place, leaning in enumerate(_LEANINGS):
        leanings[np.arange(users), favourites[:, place]] = np.where(place < number, leaning, 0.0)
    made = years(random, items)
    popularity = -np.sqrt(random.permutation(items) / items)
    traits = random.standard_normal((factors, items))
    traits[0] = _standardised(made)
    deviation = random.standard_normal((users, factors)) @ traits / np.sqrt(factors)
    quality = _QUALITY * _standardised(popularity)
    quality += np.sqrt(1 - _QUALITY**2) * random.standard_normal(items)
    scores = 3.02 + random.normal(0.0, 0.48, users)[:, None] + 0.6 * quality
    scores += _STARS_OF_LEANING * leanings[:, genres] + _STARS_OF_FACTORS * deviation
    fondness = random.standard_normal((users, SERIES))
    names = titles(random, genres, made)
    return _Taste(genres, names, made, popularity, leanings, fondness, scores)


def _standardised(values: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray((values - values.mean()) / (values.std() or 1.0))


def _occasions(
    random: np.random.Generator, taste: _Taste, ratings: int, days: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return (user, item, time) of every rating, in time order; no cell occurs twice."""
    users, items = taste.scores.shape
    counts = history_sizes(random, users, items, ratings)
    chosen: list[NDArray[np.int64]] = []
    times: list[NDArray[np.int64]] = []
    for place, count in enumerate(counts.tolist()):
        sizes, when = visits(random, count, days)
        chosen.extend(_rated(random, taste, place, int(sizes[0]), count))
        times.append(when)
    user = np.repeat(np.arange(users, dtype=np.int64), counts)
    order = np.argsort(np.concatenate(times), kind="stable")
    return user[order], np.concatenate(chosen)[order], np.concatenate(times)[order]


def _rated(
    random: np.random.Generator, taste: _Taste, user: int, first: int, count: int
) -> Iterator[NDArray[np.int64]]:
    """Yield the items of a user's first visit, the likelier ones sooner, and of all later ones."""
    leaning, score = taste.leanings[user, taste.genres], taste.scores[user]
    fondness = taste.fondness[user, taste.titles.series]

    def drawn(pull: _Pull, number: int, without: NDArray[np.int64]) -> NDArray[np.int64]:
        # The largest of weight + Gumbel noise are a draw without repetition (Vieira 2014).
        luck = pull.popularity * taste.popularity + pull.leaning * leaning + pull.score * score
        luck += pull.series * fondness + random.gumbel(size=len(luck))
        luck[without] = -np.inf
        best = np.argpartition(-luck, number - 1)[:number]
        return best[np.argsort(-luck[best])]

    yield (rated := drawn(_FIRST, first, np.empty(0, np.int64)))
    if count > first:
        yield random.permutation(drawn(_LATER, count - first, rated))


def _described(taste: _Taste) -> Descriptions:
    rows = zip(taste.titles.names, taste.genres.tolist(), taste.years.tolist(), strict=True)
    return {
        item: Description(title, (GENRES[genre],), year)
        for item, (title, genre, year) in enumerate(rows, start=1)
    }


_DAY = 86_400
_START = 1_735_689_600  # 2025-01-01: when the generated time begins
_RETURNING = 0.41  # of the users
_MORE_VISITS = (1.4, 1.6)  # mean and deviation of the logarithm of their number
_FIRST_SHARE = 0.6  # of the size of a first visit, to that of all others
_JOINING = 0.3  # of the time, in which users join
_SECONDS = 15.0  # between two ratings of a visit
_LONGEST = 20_000.0  # seconds of a visit


def history_sizes(
    random: np.random.Generator, users: int, items: int, ratings: int
) -> NDArray[np.int64]:
    """Return how many items each user rates (users,): between an eighth of the mean and four times
    the mean, and half of the items at most. Their sum is near `ratings`."""
    shares = random.lognormal(0.0, 1.1, users)
    least, most = ratings / users / 8, max(1, min(items // 2, 4 * ratings // users))
    factor = (ratings - least * users) / shares.sum()
    counts = np.ones(users, np.int64)
    for _ in range(20):
        counts = np.clip(np.rint(least + shares * factor), 1, most).astype(np.int64)
        factor *= ratings / counts.sum()
    return counts


def visits(
    random: np.random.Generator, ratings: int, days: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sizes (v,) of one user's visits, the first one first, and the rising times
    (ratings,) of its ratings."""
    joined = int(days * _JOINING * np.sqrt(random.random()))
    after = np.zeros(1, np.int64)
    if random.random() < _RETURNING and min(ratings, days - joined) > 1:
        span = 1 + int((days - joined - 2) * random.random() ** 3)
        more = min(1 + int(random.lognormal(*_MORE_VISITS)), span, ratings - 1)
        after = np.append(after, 1 + np.sort(random.choice(span, more, replace=False)))
    shares = random.lognormal(0.0, 1.2, len(after))
    shares[0] *= _FIRST_SHARE * np.sqrt(max(1, len(after) - 1))
    sizes = 1 + random.multinomial(ratings - len(after), shares / shares.sum())
    begins = _START + _DAY * (joined + after + random.uniform(0.1, 0.7, len(after)))
    steps = random.exponential(1.0, ratings) * np.repeat(
        np.minimum(_SECONDS, _LONGEST / sizes), sizes
    )
    passed = np.cumsum(steps)
    within = passed - np.repeat(passed[np.cumsum(sizes) - sizes], sizes)
    return sizes, (np.repeat(begins, sizes) + within).astype(np.int64)
