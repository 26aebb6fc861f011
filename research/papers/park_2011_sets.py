"""Figures of Park and Acharya 2011, section 4: sets of ten items, by the chain and exactly.

    F6   share of the true top 10 in a released set, against epsilon (figure 4a)
    F7   divergence of what is drawn from the law it is meant to have, against steps (figure 4b)

The completed ratings are those of Slope One (3, 5) over the 1,682 items with most ratings; the
paper does not name its completion. Adjacency is the paper's: one entry of the completed matrix.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from research.gumbel_top_k import GumbelTopK
from research.papers.figure import Figure, Progress, Published, Series, StarRatings, silent
from research.papers.swapped_sets import (
    SwapChain,
    draw_swaps,
    sums_of_sets,
    swaps,
)
from research.score_noise.k_subset import KSubset
from research.similarity import slope_one
from research.similarity.table import from_ratings, slots_of
from stream_app.evaluation.scope_errors import most_rated_items
from stream_app.privacy.randomness import RandomSource, SeededSource

PAPER = "Park and Acharya 2011"
K, LEFT, RIGHT = 10, 2, 3
ITEMS, LEAST_RATINGS, LEAST_CO_RATERS = 1682, 20, 10
HIGHEST = 5.0  # U_r: the magnitude of a rating
STEP, LONG_STEP = 1 / 20, 1e-8
OVERLAP_EPSILONS = (1, 3, 10, 30, 50, 100, 300, 500)
CHAIN_EPSILONS = (1, 10, 50)
_SEEN = 10  # states that the paper compares

Floats = NDArray[np.float64]


def f6(
    ratings: StarRatings,
    *,
    people: int = 20,
    steps: int = 1_000,
    seed: int = 0,
    progress: Progress = silent,
) -> Figure:
    """Return the overlap of a set with the true top ten, mean of so many users."""
    rows = completed(ratings, people, seed)
    draws = SeededSource(seed)
    names = ("chain of the paper", "exact, all sets", "one after another", "at random")
    found: dict[str, list[float]] = {name: [] for name in names}
    for done, epsilon in enumerate(OVERLAP_EPSILONS):
        shares = [_shares(row, epsilon, steps, draws) for row in rows]
        for name, share in zip(names, np.mean(shares, axis=0).tolist(), strict=False):
            found[name].append(share)
        found[names[3]].append(K / len(rows[0]))
        progress(done + 1, len(OVERLAP_EPSILONS))
    x = tuple(map(float, OVERLAP_EPSILONS))
    chain, exact = found[names[0]], found[names[1]]
    at = OVERLAP_EPSILONS.index(10)
    return Figure(
        "F6", PAPER, f"Overlap with the true top {K} of {len(rows[0]):,} items",
        "epsilon (one entry of the completed matrix)", f"share of the top {K}",
        log_x=True, log_y=False,
        series=tuple(Series(name, x, tuple(values)) for name, values in found.items()),
        published=(
            Published(
                "accuracy is never below 90 %", ">= .90", f"chain {min(chain):.2f}",
                agrees=min(chain) >= 0.9 - 1e-9,
            ),
            Published(
                "and the release is private at epsilon 10", ">= .90",
                f"{exact[at]:.2f} by the law of equation 28 over all sets: what the chain shows "
                "beyond is not private", agrees=exact[at] >= 0.9,
            ),
        ),
        notes=(
            "The chain has no guarantee for any epsilon: the sets that it can reach name nine of "
            "the true ten. The other two are epsilon-private.",
            f"The chain is read after {steps:,} steps from the top {K}; the paper names no number.",
        ),
    )  # fmt: skip


def f7(
    ratings: StarRatings,
    *,
    steps: int = 200_000,
    seed: int = 0,
    progress: Progress = silent,
) -> Figure:
    """Return the divergence KL(drawn || target) over the first ten states, in nats, of the chain
    and of independent draws from the target, for one user."""
    scores = np.sort(completed(ratings, 1, seed)[0])[::-1]
    logs = sums_of_sets(scores, K, swaps(len(scores), K, LEFT, RIGHT)) / HIGHEST
    points = np.unique(np.geomspace(100, steps, 12).astype(np.int64))
    runs = [(epsilon, STEP) for epsilon in CHAIN_EPSILONS] + [(100, LONG_STEP)]
    source, series, ends, moved = SeededSource(seed), [], {}, {}
    for done, (epsilon, step) in enumerate(runs):
        chain = allowed_chain(logs, epsilon, step)
        visited = chain.run(steps, source)
        drawn = draw_swaps(chain.target, steps, source)
        for name, states in (("chain", visited), ("independent draws", drawn)):
            at, values = _divergences(states, chain.target, points)
            if len(at):
                series.append(Series(f"{name}, epsilon {epsilon}", at, values))
        ends[epsilon], moved[epsilon] = chain.least_relaxation, len(np.unique(visited))
        progress(done + 1, len(runs))
    return Figure(
        "F7", PAPER, f"Divergence from the target over the top {_SEEN} sets",
        "steps", "KL(drawn || target), nats", log_x=True, log_y=True, series=tuple(series),
        published=(
            Published(
                "the chain converges to equation 28", "in the limit",
                f"to phi^epsilon, after {ends[1]:.1e} steps at least (relaxation time, epsilon 1); "
                f"{steps:,} were run", agrees=False,
            ),
            Published(
                "at epsilon 100 the divergence is 0 from the start", "0",
                f"{moved[100]} set visited with steps of 1e-8: the chain does not move",
                agrees=moved[100] == 1,
            ),
        ),
        notes=(
            "Only the first ten sets are compared, as in the paper: a chain that has not left them "
            "looks converged. Independent draws fall among them rarely, which is their noise.",
            "States that were not drawn count as 0 in the sum. The paper's printed windows repeat "
            "sets; the corrected ones are used.",
        ),
    )  # fmt: skip


def completed(ratings: StarRatings, people: int, seed: int) -> list[Floats]:
    """Return predicted ratings (n,) within 1 .. 5 of all items, for so many users with at least
    `LEAST_RATINGS` ratings. Raises ValueError where no user has as many, or for too few items."""
    known = np.unique(ratings.items)
    if len(known) < K + RIGHT:
        raise ValueError(f"{len(known)} items: sets of {K} need at least {K + RIGHT}")
    keys = most_rated_items(ratings.items, min(ITEMS, len(known)))
    table = from_ratings(ratings.users, ratings.items, ratings.stars, keys)
    users, counts = np.unique(ratings.users, return_counts=True)
    active = users[counts >= LEAST_RATINGS]
    if not len(active):
        raise ValueError(f"no user has {LEAST_RATINGS} ratings: sets are drawn for such users")
    chosen = np.random.default_rng(seed).choice(active, min(people, len(active)), replace=False)
    deviations = slope_one.deviations(table, least=LEAST_CO_RATERS)
    rows = []
    for user in chosen:
        own = ratings.users == user
        slots = slots_of(table.keys, ratings.items[own])
        found = slope_one.predict(deviations, slots, ratings.stars[own].astype(np.float32))
        rows.append(np.clip(found.astype(np.float64), 1, HIGHEST))
    return rows


def allowed_chain(logs: Floats, epsilon: float, step: float) -> SwapChain:
    """Return the chain with this step, or with the longest that equation 36 allows."""
    rates = np.exp(epsilon / 2 * np.diff(logs))
    leaving = np.append(rates, 0) + np.append(0, 1 / rates)
    return SwapChain(logs, epsilon, min(step, 0.999 / float(leaving.max())))


def _shares(scores: Floats, epsilon: int, steps: int, source: RandomSource) -> tuple[float, ...]:
    """Return the overlap of a set of the chain, of all sets, and of ten single choices."""
    order = np.argsort(-scores, kind="stable")
    logs = sums_of_sets(scores[order], K, swaps(len(scores), K, LEFT, RIGHT)) / HIGHEST
    chain = allowed_chain(logs, epsilon, STEP)
    # For the sum of k scores one entry counts once, and k times where each choice is paid for.
    joint = KSubset(K, Fraction(epsilon), HIGHEST / K, 0.0, HIGHEST)
    peeled = GumbelTopK(K, Fraction(epsilon), HIGHEST, 0.0, HIGHEST)
    top = order[:K]
    return (
        1.0 if chain.run(steps, source)[-1] == 0 else 1 - 1 / K,
        *(len(np.intersect1d(m.release(scores, source), top)) / K for m in (joint, peeled)),
    )


def _divergences(
    states: NDArray[np.int64], target: Floats, points: NDArray[np.int64]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the points at which at least one of the first states was seen, and the divergences
    there; a divergence of 0 is shown as 1e-12."""
    at, values = [], []
    for point in points.tolist():
        seen = states[:point]
        width = min(_SEEN, len(np.unique(seen)))
        counts = np.bincount(seen[seen < width], minlength=width)[:width].astype(np.float64)
        if counts.sum():
            law, drawn = target[:width] / target[:width].sum(), counts / counts.sum()
            inside = drawn > 0
            divergence = float((drawn[inside] * np.log(drawn[inside] / law[inside])).sum())
            at.append(float(point))
            values.append(max(divergence, 1e-12))
    return tuple(at), tuple(values)
