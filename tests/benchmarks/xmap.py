"""X-Map for cold users of a domain: MAE and nDCG@10 beside what it has to beat, and the searched
worst case of its mechanisms over their proved bounds.

A fifth of the users of both domains (a twentieth on ML-1M) is cold: all their target ratings are
held out. Lists are of the whole target domain; 4 stars and more are relevant. The epsilon of the
corrected form is of a whole reply, half for replacements and half for neighbourhoods, for all
ratings of another person; delta 2e-5. Mean ratings and popularity of items count as public.

ML-1M is split by genre (films of both are left out), the small Ciao by category.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from research.xmap.adjusted_cosine import damped_cosine, rated_cells, sensitivity
from research.xmap.measured import Measured, compare
from research.xmap.neighbour_noise import LaplaceSimilarities
from research.xmap.neighbours import PrivateNeighbours
from research.xmap.replacement import PrivateReplacement
from research.xmap.task import cold_task, two_domains
from research.xmap.two_domains import DomainRatings, of_one_file, of_two_files
from research.xmap.x_map import XMapOptions
from tests.benchmarks.figure import Figure
from tests.fixtures.data_sets import FILES, ROOT

SPLITS = 1
EPSILONS = (1.0, 4.0, 16.0, math.inf)
Ratings = Callable[[Path], DomainRatings]
SETS: dict[str, tuple[str, float, Ratings]] = {
    "books to movies": (
        "amazon books", 0.2, lambda path: of_two_files(path, path.with_name("movies.npz")),
    ),
    "movies to books": (
        "amazon books", 0.2, lambda path: of_two_files(path.with_name("movies.npz"), path),
    ),
    "ciao 6 to 1": ("ciao", 0.2, lambda path: of_one_file(path, "6", "1")),
    "ML-1M Comedy to Drama": ("ml-1m", 0.05, lambda path: of_one_file(path, "Comedy", "Drama")),
}  # fmt: skip


def measure(splits: int = SPLITS) -> list[Figure]:
    """Return the errors of every method on every pair of domains, and the searched worst cases."""
    folder = Path(os.environ.get("MURMUREC_DATA") or ROOT.parent / "shared" / "data")
    figures = []
    for name, (place, share, read) in SETS.items():
        path = folder / FILES[place]
        if not path.exists():
            figures.append(Figure(f"X-Map, {name}: skipped, no {path}", math.nan, ""))
            continue
        found = read(path)
        data = two_domains(found.users, found.items, found.stars, found.in_target)
        runs = [
            compare(cold_task(data, seed, share), EPSILONS, XMapOptions(seed=seed))
            for seed in range(splits)
        ]
        figures += _errors(name, runs)
    return figures + worst_cases()


def _errors(name: str, runs: list[list[Measured]]) -> list[Figure]:
    figures, means = [], {}
    for rows in zip(*runs, strict=True):
        method = rows[0].method
        if method == "X-Map corrected":
            method += ", no noise" if rows[0].epsilon is None else f", {rows[0].epsilon:g}"
        means[method] = float(np.mean([row.mae for row in rows]))
        ndcg = float(np.mean([row.ndcg for row in rows]))
        figures.append(Figure(f"X-Map, {name}, MAE, {method}", means[method], "stars"))
        figures.append(Figure(f"X-Map, {name}, nDCG@10, {method}", ndcg, ""))
    below = means["item mean"] - means["X-Map clean"]
    wanted = "" if name.startswith("ciao") else ">= 0"  # 45 % of its stars are 5
    figures.append(Figure(f"X-Map, {name}, clean below item mean by", below, "stars", wanted))
    return figures


def worst_cases(tries: int = 2000) -> list[Figure]:
    """Return the searched worst case over the proved bound of each corrected mechanism."""
    random = np.random.default_rng(1)
    found = dict.fromkeys(("PRS, Delta 2", "PRS, damped", "PNSA", "PNCF", "damped similarity"), 0.0)
    for epsilon in (1.0, 4.0, 16.0):
        for delta, name in ((2.0, "PRS, Delta 2"), (sensitivity(100, 2), "PRS, damped")):
            prs = PrivateReplacement(epsilon, delta)
            for _ in range(tries // 10):
                logs = [np.log(prs.probabilities(row)) for row in _pair(random, 500, delta)]
                found[name] = max(found[name], np.abs(logs[0] - logs[1]).max() / epsilon)
        pnsa = PrivateNeighbours(2, epsilon, 0.2)
        for _ in range(tries):
            pair = _pair(random, 40, 0.2)
            places = random.permutation(40)[:2]
            first, second = (pnsa.log_likelihood(places, row) for row in pair)
            found["PNSA"] = max(found["PNSA"], abs(first - second) / pnsa.spent)
        pncf = LaplaceSimilarities(10, epsilon, 0.2)
        cost = 10 * (pncf.units + 1) * float(pncf.scale)  # all 10 move by Delta and a rounding
        found["PNCF"] = max(found["PNCF"], cost / (epsilon / 2))
    found["damped similarity"] = _damped(random, tries)
    named = (f"searched worst case / proved bound, {name}" for name in found)
    return [
        Figure(name, float(worst), "", "<= 1.000001")  # of logarithms of floats
        for name, worst in zip(named, found.values(), strict=True)
    ]


def _pair(random: np.random.Generator, size: int, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """Return neighbouring similarities: a few rise by delta and all others fall, or at random."""
    few = np.arange(size) < random.integers(1, 3)
    few = few[random.permutation(size)]
    first = np.where(few, -1, min(1, delta - 1)) if random.random() < 0.7 else None
    if first is None:
        first = random.uniform(-1, 1, size)
    return first.clip(-1, 1), (first + np.where(few, delta, -delta)).clip(-1, 1)


def _damped(random: np.random.Generator, tries: int) -> float:
    """Return the largest change of a damped similarity by one person over 2 B^2 / (beta + B^2)."""
    worst = 0.0
    for _ in range(tries):
        beta, clip, people = random.choice([5, 10, 100]), 2.0, int(random.integers(2, 8))
        stars = random.choice([1.0, 5.0], (people, 4))
        if random.random() < 0.5:
            stars = np.repeat(stars[:1], people, axis=0)
            stars[0] = random.choice([1.0, 5.0], 4)
        rows = np.repeat(np.arange(people), 4)
        with_all = rated_cells(rows, np.tile(np.arange(4), people), stars.ravel(), people, 4)
        without = rated_cells(rows[4:], np.tile(np.arange(4), people - 1), stars[1:].ravel(),
                              people, 4)  # fmt: skip
        change = damped_cosine(with_all, with_all, beta, clip) - damped_cosine(
            without, without, beta, clip
        )
        np.fill_diagonal(change, 0)
        worst = max(worst, np.abs(change).max() / sensitivity(beta, clip))
    return worst
