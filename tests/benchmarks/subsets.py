"""Private sets of ten: time of a draw, and overlap with the true top ten.

The peer is the table in logarithms, a row of numpy for each item (the plain form of the same
polynomials), in the same run. Scores are N(3.5, .6) clipped to 1 .. 5, and neighbours differ in one
of them, as in Park and Acharya 2011.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from research.gumbel_top_k import GumbelTopK
from research.papers.swapped_sets import draw_swaps, power_law, sums_of_sets, swaps
from research.score_noise.k_subset import KSubset
from stream_app.privacy.randomness import SeededSource, SystemSource
from tests.benchmarks.figure import Figure

K, HIGHEST = 10, 5.0
SIZES = (1_682, 3_706, 100_000)
EPSILONS = (1, 10, 50, 100, 500)
DRAWS = 100


def measure() -> list[Figure]:
    """Return milliseconds of a draw, best of five, and overlaps, mean of a hundred draws."""
    figures = []
    for size in SIZES:
        scores = _scores(size)
        subset = KSubset(K, Fraction(10), HIGHEST / K, 0.0, HIGHEST)
        drawn = _best(lambda m=subset, s=scores: m.release(s, SystemSource()), 5)
        plain = _best(lambda s=scores: _plain(s), 1)
        target = "<= 20" if size == SIZES[-1] else ""
        name = f"set of {K} of {size:,}"
        figures += [
            Figure(f"{name}: drawn", 1000 * drawn, "ms", target),
            Figure(f"{name}: plain numpy in logarithms", 1000 * plain, "ms"),
            Figure(f"{name}: faster", plain / drawn, "x", ">= 5"),
        ]
    scores, source = _scores(SIZES[0]), SeededSource(1)
    for epsilon in EPSILONS:
        joint = KSubset(K, Fraction(epsilon), HIGHEST / K, 0.0, HIGHEST)
        peeled = GumbelTopK(K, Fraction(epsilon), HIGHEST, 0.0, HIGHEST)
        for name, found in (
            ("exact", _overlap(scores, lambda m=joint: m.release(scores, source))),
            ("one after another", _overlap(scores, lambda m=peeled: m.release(scores, source))),
            ("one swap, NOT private", _swapped(scores, epsilon, source)),
        ):
            figures.append(Figure(f"overlap, epsilon {epsilon}: {name}", found, ""))
    return figures


def _scores(size: int) -> np.ndarray:
    return np.clip(np.random.default_rng(0).normal(3.5, 0.6, size), 1, HIGHEST)


def _plain(scores: np.ndarray) -> list[int]:
    """Draw a set by the polynomials in logarithms, an item at a time."""
    logs = scores / HIGHEST * 5
    table = np.full((len(scores) + 1, K + 1), -np.inf)
    table[:, 0] = 0.0
    for i, log in enumerate(logs):
        np.logaddexp(table[i, 1:], log + table[i, :-1], out=table[i + 1, 1:])
    uniforms = np.random.default_rng(1).random(len(scores))
    chosen, wanted = [], K
    for i in range(len(scores), 0, -1):
        if wanted and uniforms[i - 1] < np.exp(
            logs[i - 1] + table[i - 1, wanted - 1] - table[i, wanted]
        ):
            chosen.append(i - 1)
            wanted -= 1
    return chosen


def _overlap(scores: np.ndarray, release: Callable[[], np.ndarray]) -> float:
    top = np.argsort(-scores)[:K]
    return float(np.mean([len(np.intersect1d(release(), top)) / K for _ in range(DRAWS)]))


def _swapped(scores: np.ndarray, epsilon: int, source: SeededSource) -> float:
    falling = np.sort(scores)[::-1]
    sums = sums_of_sets(falling, K, swaps(len(scores), K, 2, 3)) / HIGHEST
    states = draw_swaps(power_law(sums, epsilon / 2), DRAWS, source)
    return float(np.mean(np.where(states == 0, 1.0, 1 - 1 / K)))


def _best(run: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        started = time.process_time()
        run()
        best = min(best, time.process_time() - started)
    return best
