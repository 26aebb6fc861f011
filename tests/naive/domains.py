"""X-SIM as the definition has it: every meta path as a list of items, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

Ratings = dict[tuple[int, int], float]  # (user, item) -> stars


def centred(ratings: Ratings) -> Ratings:
    """Return the ratings around the mean of each user."""
    users = {user for user, _ in ratings}
    means = {u: np.mean([r for (user, _), r in ratings.items() if user == u]) for u in users}
    return {(user, item): r - means[user] for (user, item), r in ratings.items()}


def similarity(ratings: Ratings, i: int, j: int, beta: float = 0.0, clip: float = 9.0) -> float:
    """Return adjusted cosine, damped where beta is above 0."""
    values = {cell: min(max(c, -clip), clip) for cell, c in centred(ratings).items()}
    users = {user for user, _ in ratings}
    a, b = ([values.get((user, item), 0.0) for user in sorted(users)] for item in (i, j))
    norm = np.sqrt((sum(x * x for x in a) + beta) * (sum(y * y for y in b) + beta))
    return float(sum(x * y for x, y in zip(a, b, strict=True)) / norm) if norm > 0 else 0.0


def agreeing(ratings: Ratings, i: int, j: int) -> tuple[int, float]:
    """Return S and F of two items."""
    raters = [{u for u, item in ratings if item == each} for each in (i, j)]
    means = [np.mean([ratings[u, item] for u in found]) for item, found in zip((i, j), raters)]  # noqa: B905
    both, either = raters[0] & raters[1], raters[0] | raters[1]
    agree = sum(
        (ratings[u, i] >= means[0] - 1e-9) == (ratings[u, j] >= means[1] - 1e-9) for u in both
    )
    return int(agree), agree / len(either)


def x_sim(
    ratings: Ratings, source: set[int], target: set[int], most: int
) -> dict[tuple[int, int], float]:
    """Return X-SIM by pair of items; those of value 0 too."""
    raters = {item: {u for u, rated in ratings if rated == item} for item in source | target}

    def linked(i: int, j: int) -> bool:
        return i != j and bool(raters[i] & raters[j])

    def layer(item: int, own: set[int], other: set[int]) -> int:
        bridges = {i for i in own if any(linked(i, j) for j in other)}
        if item in bridges:
            return 0
        return 1 if any(linked(item, i) for i in bridges) else 2

    order = {i: 2 - layer(i, source, target) for i in source}
    order |= {j: 3 + layer(j, target, source) for j in target}

    def after(item: int) -> list[int]:
        found = [j for j in order if order[j] == order[item] + 1 and linked(item, j)]
        return sorted(found, key=lambda j: (-similarity(ratings, item, j), j))[:most]

    def paths(path: list[int]) -> Iterator[list[int]]:
        if path[-1] in target:
            yield path
        for each in after(path[-1]):
            yield from paths([*path, each])

    result = {}
    for i in source:
        sums: dict[int, list[float]] = {}
        for path in paths([i]):
            links = list(pairwise(path))
            S, F = zip(*(agreeing(ratings, *link) for link in links), strict=True)
            s = [similarity(ratings, *link) for link in links]
            mean = float(np.dot(S, s) / sum(S)) if sum(S) else 0.0
            total = sums.setdefault(path[-1], [0.0, 0.0])
            total[0] += float(np.prod(F)) * mean
            total[1] += float(np.prod(F))
        for j in target:
            total = sums.get(j, [0.0, 0.0])
            result[i, j] = total[0] / total[1] if total[1] else 0.0
    return result
