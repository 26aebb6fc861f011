"""What a person's budget buys on MovieLens-1M: some of the ratings, with more epsilon each.

One pass of the dense learner over a random 80/10/10 split. Each user reports a stated number of the
ratings in the first part, under partition:5:e; all other ratings are never reported. The last part
is tested. Beside it the fold-in: each device corrects its own predictions from all its ratings of
the first part, in the clear (`research/fold_in.py`).

Which ratings are reported is drawn with weights popularity^power: 0 draws at random, -1/2 prefers
items with few ratings. That a rating exists is public under these mechanisms, so every power looks
at public data only.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from research.fold_in import OwnRatings, folded_in
from stream_app.evaluation import AdaptiveDevices, split
from stream_app.evaluation.results import rms
from stream_app.models.baselines.learners import build
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import Learner, LearnerSpec
from stream_app.privacy import registry
from stream_app.privacy.accounting.budget_plans import largest_count
from stream_app.privacy.randomness import SeededSource
from tests.benchmarks.figure import Figure
from tests.fixtures.movielens import Ratings, load, skipped

DELTA = Fraction(1, 10**6)
SEEDS = (11, 12, 13)
FACTORS = 8
GRID = ("1/4", "1/2", "1", "3/2", "2", "5/2", "3", "4", "5", "6")  # at a budget of 20
BUDGETS = (5, 10, 40, 80, 160, 320)
EPSILONS = ("5/2", "4")  # at the other budgets
POWERS = (-0.25, -0.5, 0.5, 1.0)  # of 5 reports at 4
_BATCH = 8192


def measure() -> list[Figure]:
    """Return the RMSE of each plan, exact and by sums, alone and folded in."""
    ratings = load()
    if ratings is None:
        return skipped("RMSE of what a budget buys on MovieLens-1M")
    plans = [(20, epsilon) for epsilon in GRID] + list(product(BUDGETS, EPSILONS))
    figures = []
    for budget, epsilon in plans:
        id = f"partition:5:{epsilon}"
        exact = largest_count(id, Fraction(budget), DELTA)
        for count in dict.fromkeys((exact, int(budget / Fraction(epsilon)))):
            how = "exact" if count == exact else "by sums"
            figures += _figures(ratings, id, count, 0.0, f"budget {budget} {how}")
    for power in POWERS:
        figures += _figures(ratings, "partition:5:4", 5, power, f"popularity^{power:g}")
    return figures


def _figures(ratings: Ratings, id: str, count: int, power: float, why: str) -> list[Figure]:
    found = np.mean([errors(ratings, id, count, power, seed) for seed in SEEDS], axis=0)
    name = f"{why}: {count} a user, {id}"
    return [
        Figure(f"RMSE, {name}", float(found[0]), "stars"),
        Figure(f"RMSE folded in, {name}", float(found[1]), "stars"),
    ]


def errors(
    ratings: Ratings, id: str, count: int, power: float, seed: int, factors: int = FACTORS
) -> tuple[float, float]:
    """Return the RMSE of the last part after `count` reports a user, without and with fold-in."""
    learned, tuned, tested = split(len(ratings), seed)
    learner = learn(ratings, reported(ratings, learned, count, power, seed), id, seed, factors)
    stars = ratings.levels + 1.0
    folded = folded_in(
        OwnRatings(ratings.users, ratings.items, stars, learned, tuned, tested), learner
    )
    predicted = learner.predict_many(ratings.users[tested], ratings.items[tested])
    return rms(predicted - stars[tested]), rms(folded - stars[tested])


def reported(
    ratings: Ratings, learned: NDArray[np.int64], count: int, power: float, seed: int
) -> NDArray[np.int64]:
    """Return at most `count` rows of each user among `learned` (in random order), in that order.

    Drawn without replacement, with weights popularity^power (Efraimidis and Spirakis 2006).
    """
    items = ratings.items[learned].astype(np.int64)
    weights = np.bincount(items)[items] ** power
    place = np.random.default_rng(seed).exponential(size=len(items)) / weights
    order = np.lexsort((place, ratings.users[learned]))
    users = ratings.users[learned][order]
    begins = np.flatnonzero(np.append(True, users[1:] != users[:-1]))
    rank = np.arange(len(users)) - np.repeat(begins, np.diff(np.append(begins, len(users))))
    return learned[np.sort(order[rank < count])]


def learn(ratings: Ratings, rows: NDArray[np.int64], id: str, seed: int, factors: int) -> Learner:
    """Return a dense learner after one pass over the reports of these rows."""
    mechanism = registry.parse(id)
    channels = Channels.from_mechanisms([mechanism])
    learner = build("dense", channels, LearnerSpec(factors=factors, seed=seed))
    columns = ratings.users, ratings.items, ratings.levels, SeededSource(seed)
    devices = AdaptiveDevices(mechanism, channels, *columns)
    first = 0
    while first < len(rows):
        part = rows[first : first + min(max(first, 256), _BATCH)]
        reports = devices.report(part, learner)
        learner.learn_many(
            ratings.users[part], ratings.items[part], *reports, np.ones(len(part), np.bool_)
        )
        first += len(part)
    return learner
