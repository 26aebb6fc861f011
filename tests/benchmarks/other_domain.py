"""Lists of another domain from a public table that is noised once: nDCG@10 of cold users.

The path is the one that is live: each device's list of both domains is one contribution, the sums
are noised for everything that it reported, the table is derived, written and read as bytes, and a
device that holds ratings of the source domain alone makes its list of the target domain from it
(`murmurec similarities`, `murmurec recommend --local --to`). Beside: the target items by
the rates of the same table, and by the true counts. A fifth of the users of both domains is cold:
their target ratings are held out of the sums. 4 stars and more are relevant; delta 1e-6.

ML-1M has no second domain: films of even numbers are one and those of odd numbers the other, which
says what a larger population gains and nothing about how far apart two domains are.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from producers.datasets.load import load
from producers.ranking import LocalRecommender
from producers.ranking.published import PublicTable
from research.noise_once import RECENT
from research.xmap.task import RELEVANT, Cold, ColdTask, cold_task, two_domains
from research.xmap.two_domains import DomainRatings, of_two_files
from stream_app.campaigns.noise_once import NoisedTable, NoisePlan, exact_sums, plan_for, release
from stream_app.campaigns.noise_once import table_of as released_table
from stream_app.errors import UserError
from stream_app.privacy.randomness import SeededSource
from stream_app.ranking.domains.noised_similarities import Noise, Terms, similarity_table
from stream_app.ranking.domains.similarity_table import SimilarityTable
from stream_app.ranking.domains.table_bytes import decode_table, encode_table
from tests.benchmarks.figure import Figure
from tests.fixtures.data_sets import FILES, ROOT

EPSILONS = (2, 4, 8, 16, math.inf)
DELTA = Fraction(1, 10**6)
DRAWS = 3
SHARE = 0.2  # of the users of both domains are cold
K = 10
DOMAINS = ("source", "target")


class Found(NamedTuple):
    """nDCG@10 of the devices' lists, and of the target items by the rates of the table."""

    device: float
    popular: float


def by_parity(path: Path) -> DomainRatings:
    """Return the ratings of one file; the items of odd numbers are the target domain."""
    found = load(path)
    stars = 1 + 4 * found.levels.astype(np.float64) / (found.scale.levels - 1)
    return DomainRatings(found.users, found.items, stars, found.items % 2 == 1, 0)


def books_to_films(path: Path) -> DomainRatings:
    """Return the ratings of the file of books and of that of films beside it."""
    return of_two_files(path, path.with_name("movies.npz"))


SETS: dict[str, tuple[str, Callable[[Path], DomainRatings]]] = {
    "books to films": ("amazon books", books_to_films),
    "ML-1M, even to odd": ("ml-1m", by_parity),
}


def measure(splits: int = DRAWS) -> list[Figure]:
    """Return nDCG@10 at each epsilon, the mean of so many draws of the noise."""
    folder = Path(os.environ.get("MURMUREC_DATA") or ROOT.parent / "shared" / "data")
    figures = []
    for name, (place, read) in SETS.items():
        path = folder / FILES[place]
        title = f"another domain, {name}"
        if not path.exists():
            figures.append(Figure(f"{title}: skipped, no {path}", math.nan, ""))
            continue
        task = task_of(read(path))
        for epsilon in EPSILONS:
            draws = 1 if math.isinf(epsilon) else splits
            runs = [evaluate(task, published(task, epsilon, seed)) for seed in range(draws)]
            device, popular = (float(np.mean(each)) for each in zip(*runs, strict=True))
            wanted = f">= {popular:.4f}"
            figures.append(Figure(f"{title}, epsilon {epsilon:g}: nDCG@10", device, "", wanted))
            figures.append(Figure("the same, by rates of the table: nDCG@10", popular, ""))
        figures.append(Figure(f"{title}, by true counts: nDCG@10", by_counts(task), ""))
    return figures


def task_of(found: DomainRatings, seed: int = 0) -> ColdTask:
    """Return the cold users and what is learned without them."""
    data = two_domains(found.users, found.items, found.stars, found.in_target)
    return cold_task(data, seed, SHARE)


def published(task: ColdTask, epsilon: float, seed: int) -> SimilarityTable:
    """Return the table as a device reads it; without noise where epsilon is infinite."""
    data = task.data
    size = data.sources + data.targets
    keys = np.arange(1, size + 1, dtype=np.uint64)
    users, items, stars = (each[task.learned] for each in (data.users, data.items, data.stars))
    order = np.argsort(users, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(users[order])) + 1)
    lists = [(items[part[-RECENT:]], stars[part[-RECENT:]]) for part in parts]
    if math.isinf(epsilon):
        plan = NoisePlan(size, 2**15, Fraction(4), differences=False, means=True)
        noised = NoisedTable(plan, released_table(plan, exact_sums(plan, lists), keys))
    else:
        plan = plan_for(epsilon, DELTA, size, differences=False, means=True)
        noised = release(plan, lists, keys, SeededSource(seed))
    domains = [DOMAINS[0]] * data.sources + [DOMAINS[1]] * data.targets
    cost = min(float(epsilon), 1e3)
    table = similarity_table(
        noised.table, domains, Noise(noised.deviation, noised.damping), Terms(1, cost, 1e-6, cost)
    )
    return decode_table(encode_table(table))


def evaluate(task: ColdTask, table: SimilarityTable) -> Found:
    """Return the figures of one table; a device that gets no list takes the one by rates."""
    rates = table.rates[task.data.sources :]
    popular = np.argsort(-rates, kind="stable")[:K]
    try:
        device = LocalRecommender(PublicTable(table, {}), to=DOMAINS[1])
    except UserError:
        device = None
    found = []
    for cold in task.cold:
        if (cold.truth >= RELEVANT).any():
            own = popular if device is None else listed(device, task, cold, popular)
            found.append((ndcg(own, cold), ndcg(popular, cold)))
    return Found(*np.mean(found, axis=0).tolist())


def listed(
    device: LocalRecommender, task: ColdTask, cold: Cold, otherwise: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the list of a device (K,) as numbers of target items."""
    rated = [(int(item) + 1, float(s)) for item, s in zip(cold.items, cold.stars, strict=True)]
    try:
        found = device.recommend(rated, K)
    except UserError:
        return otherwise
    return np.array([int(row.item) - 1 - task.data.sources for row in found.items])


def by_counts(task: ColdTask) -> float:
    """Return nDCG@10 of the target items by how many of the others rated them."""
    best = np.argsort(-task.target.present.sum(axis=0), kind="stable")[:K]
    able = [cold for cold in task.cold if (cold.truth >= RELEVANT).any()]
    return float(np.mean([ndcg(best, cold) for cold in able]))


def ndcg(items: NDArray[np.int64], cold: Cold) -> float:
    """Return nDCG of a list for a cold user with a relevant item."""
    relevant = cold.held[cold.truth >= RELEVANT]
    gains = 1 / np.log2(np.arange(2, K + 2))
    hits = np.isin(items, relevant)
    return float(gains[: len(items)] @ hits / gains[: len(relevant)].sum())
