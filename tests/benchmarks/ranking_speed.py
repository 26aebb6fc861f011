"""Cost of the item side and of a list made on the device: process CPU time, one thread of BLAS.

Generated devices with 30 tastes, 4,096 items; run it with OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import numpy as np

from producers.ranking.ranker import Ranker
from stream_app.ranking import low_rank
from stream_app.ranking.derivation import Derivation, derive
from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.pair_counts import PairCounts
from tests.benchmarks.figure import Figure
from tests.benchmarks.statistics import best_seconds

ITEMS, DEVICES, TASTES, RATED = 4096, 6000, 30, 150


def pair_counts(random: np.random.Generator) -> PairCounts:
    """Return the counts of devices whose tastes decide what they have."""
    tastes = random.standard_normal((DEVICES, TASTES)).astype(np.float32)
    directions = 0.3 * random.standard_normal((TASTES, ITEMS)).astype(np.float32)
    share = np.log(0.02 + 0.3 * random.random(ITEMS, dtype=np.float32) ** 3)
    chance = np.exp(np.minimum(share + 0.3 * tastes @ directions, 0))
    x = (random.random((DEVICES, ITEMS), dtype=np.float32) < chance).astype(np.float32)
    pairs, sums = x.T @ x, x.sum(axis=0)
    return PairCounts(
        keys=np.arange(1, ITEMS + 1, dtype=np.uint64),
        pairs=pairs,
        squares=sums,
        sums=sums,
        exposures=np.full(ITEMS, DEVICES, np.float32),
        reports=sums,
        ordered=np.triu(pairs),
        channel=None,
        cut=1,
    )


def local_ranking(side: ItemSide, random: np.random.Generator) -> float:
    """Return the milliseconds of one list from `RATED` rated items, its reasons included."""
    ranker = Ranker(side)
    items = random.choice(side.keys, RATED, replace=False).tolist()
    stars = random.integers(1, 6, RATED).astype(float).tolist()
    rounds = 20
    seconds = best_seconds(
        lambda: [ranker.rank(items, stars, 10, because=True) for _ in range(rounds)]
    )
    return 1000 * seconds / rounds


def measure() -> list[Figure]:
    random = np.random.default_rng(1)
    counts = pair_counts(random)
    ratings = np.full(ITEMS, 3.5, np.float32)
    cold = best_seconds(lambda: low_rank.estimate(counts))
    factors = low_rank.estimate(counts).factors
    warm = best_seconds(lambda: low_rank.estimate(counts, start=factors))
    whole = best_seconds(lambda: derive(counts, ratings))
    side = derive(counts, ratings, Derivation())
    local = local_ranking(side, random)
    return [
        Figure("low rank, 4,096 items", cold, "s", "<= 2"),
        Figure("low rank, 4,096 items, from earlier factors", warm, "s", "<= 2"),
        Figure("factors found of 30 planted", side.factors.shape[1], "factors"),
        Figure("item side, 4,096 items: EASE, low rank, what follows", whole, "s", "<= 6"),
        Figure("list on the device, 4,096 items, 150 rated", local, "ms", "<= 5"),
    ]
