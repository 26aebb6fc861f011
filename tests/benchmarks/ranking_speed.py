"""Cost of the item side and of a list made on the device: process CPU time, one thread of BLAS.

Generated devices with 30 tastes, 4,096 items; run it with OPENBLAS_NUM_THREADS=1. Weights are
learned from lists of 128 items, of which the newest 16 are the present visit. A device's own
ratings are of one visit, so that every component sums over all of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from producers.ranking.ranker import Ranker, Rated
from stream_app.ranking import low_rank
from stream_app.ranking.derivation import derive
from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.pair_counts import PairCounts
from stream_app.ranking.scores import DEFAULT
from stream_app.ranking.visit_events import VisitSample
from tests.benchmarks.figure import Figure
from tests.benchmarks.statistics import best_seconds

ITEMS, DEVICES, TASTES, RATED = 4096, 6000, 30, 150
SAMPLED, LISTED, PRESENT = 1500, 128, 16


def devices(random: np.random.Generator) -> NDArray[np.float32]:
    """Return (devices, items) 0 or 1: tastes decide what a device has."""
    tastes = random.standard_normal((DEVICES, TASTES)).astype(np.float32)
    directions = 0.3 * random.standard_normal((TASTES, ITEMS)).astype(np.float32)
    share = np.log(0.02 + 0.3 * random.random(ITEMS, dtype=np.float32) ** 3)
    chance = np.exp(np.minimum(share + 0.3 * tastes @ directions, 0))
    return (random.random((DEVICES, ITEMS), dtype=np.float32) < chance).astype(np.float32)


def pair_counts(x: NDArray[np.float32]) -> PairCounts:
    """Return the counts of devices; an item follows the ones before it."""
    pairs, sums = x.T @ x, x.sum(axis=0)
    return PairCounts(
        keys=np.arange(1, ITEMS + 1, dtype=np.uint64),
        pairs=pairs,
        squares=sums,
        sums=sums,
        exposures=np.full(ITEMS, DEVICES, np.float32),
        reports=sums,
        between=np.tril(pairs, -1),
        within=np.triu(pairs, 1),
        recent=sums,
        recent_total=float(sums.sum()),
        total=float(sums.sum()),
        devices=float(DEVICES),
        channel=None,
        cut=1,
    )


def visits(x: NDArray[np.float32], random: np.random.Generator) -> VisitSample:
    """Return lists of the first devices, in a random order, half of them likes."""
    lists = [random.permutation(np.flatnonzero(row))[:LISTED] for row in x[:SAMPLED]]
    slots = np.concatenate(lists)
    visit, ones = np.full(SAMPLED, PRESENT), np.ones(SAMPLED)
    return VisitSample(
        starts=np.concatenate(([0], np.cumsum([len(each) for each in lists]))),
        slots=slots,
        weights=np.ones(len(slots), np.float32),
        likes=random.integers(0, 2, len(slots)).astype(np.uint8),
        present=visit,
        before=visit,
        singles=visit,
        singles_before=visit,
        steps_ago=np.zeros_like(visit),
        positive=0.9 * ones,
        false=0.1 * ones,
    )


def local_ranking(side: ItemSide, random: np.random.Generator, *, because: bool) -> float:
    """Return the milliseconds of one list from `RATED` rated items, by all components."""
    ranker = Ranker(replace(side, now_weights=np.ones_like(DEFAULT)))
    items = random.choice(side.keys, RATED, replace=False).tolist()
    stars = random.integers(1, 6, RATED).astype(float).tolist()
    rated = Rated.untimed(items, stars)._replace(
        days=np.zeros(RATED, np.int64), places=np.arange(RATED)
    )
    rounds = 20
    seconds = best_seconds(
        lambda: [ranker.rank(rated, 10, now=True, because=because) for _ in range(rounds)]
    )
    return 1000 * seconds / rounds


def measure() -> list[Figure]:
    random = np.random.default_rng(1)
    x = devices(random)
    counts, sample = pair_counts(x), visits(x, random)
    ratings = np.full(ITEMS, 3.5, np.float32)
    cold = best_seconds(lambda: low_rank.estimate(counts))
    factors = low_rank.estimate(counts).factors
    warm = best_seconds(lambda: low_rank.estimate(counts, start=factors))
    whole = best_seconds(lambda: derive(counts, ratings))
    learned = best_seconds(lambda: derive(counts, ratings, (sample, sample)), 1)
    side = derive(counts, ratings).side
    local, why = (local_ranking(side, random, because=each) for each in (False, True))
    return [
        Figure("low rank, 4,096 items", cold, "s", "<= 2"),
        Figure("low rank, 4,096 items, from earlier factors", warm, "s", "<= 2"),
        Figure("factors found of 30 planted", side.factors.shape[1], "factors"),
        Figure("item side, 4,096 items: EASE, low rank, what follows", whole, "s", "<= 6"),
        Figure("the same, weights of both lists learned, 1,500 devices", learned, "s"),
        Figure("list on the device, 4,096 items, 150 rated", local, "ms", "<= 1.5"),
        Figure("the same with reasons", why, "ms", "<= 5"),
    ]
