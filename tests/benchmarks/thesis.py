"""Error of matrix factorization by the protocol of Balu 2016, table 4.2: ML-1M, three folds."""

from __future__ import annotations

import statistics

from research.papers.balu_2016_factorization import t4_2
from research.papers.figure import StarRatings
from tests.benchmarks.figure import Figure
from tests.fixtures.movielens import load, skipped

_TARGETS = {"regular": "<= 0.856", "sketch, k = 4": "<= 0.864", "hashing": "<= 0.866"}


def measure() -> list[Figure]:
    """Return the mean error of each method over three folds, with the least and the largest."""
    ratings = load()
    if ratings is None:
        return skipped("table 4.2")
    stars = StarRatings(ratings.users, ratings.items, ratings.levels + 1.0)
    return [
        Figure(
            f"RMSE of 20 epochs, {each.name}", statistics.fmean(each.y), "stars",
            _TARGETS[each.name], low=min(each.y), high=max(each.y),
        )
        for each in t4_2(stars).series
    ]  # fmt: skip
