"""The obvious chains over sets of items: every log-likelihood from the definition."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np

LogLikelihood = Callable[[frozenset[int]], float]  # ln P(released | items by place), up to const


def posterior(likelihood: LogLikelihood, odds: np.ndarray) -> tuple[np.ndarray, float]:
    """Return P(j in P | released) of every item and the mean size, by enumeration of all sets."""
    n = len(odds)
    sets = [frozenset(c) for size in range(n + 1) for c in combinations(range(n), size)]
    logs = np.array([likelihood(each) + sum(odds[j] for j in each) for each in sets])
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    inside = np.array([[j in each for j in range(n)] for each in sets])
    return weights @ inside, float(weights @ inside.sum(axis=1))


def sweep(
    likelihood: LogLikelihood,
    odds: np.ndarray,
    held: set[int],
    uniforms: np.ndarray,
    totals: np.ndarray,
) -> None:
    """Draw every item again from its odds given the others, once a row of uniforms."""
    for row in uniforms:
        for j in range(len(odds)):
            rest = frozenset(held - {j})
            x = odds[j] + likelihood(rest | {j}) - likelihood(rest)
            probability = 1 / (1 + math.exp(-x))
            totals[j] += probability
            held.discard(j)
            if row[j] < probability:
                held.add(j)


def step(
    likelihood: LogLikelihood,
    odds: np.ndarray,
    slots: list[int],
    corrected: bool,
    uniforms: np.ndarray,
    totals: np.ndarray,
) -> None:
    """Empty one slot and fill it again, once a row of uniforms."""
    n = len(odds)
    for first, second in uniforms:
        slot = int(first * len(slots))
        slots[slot] = -1
        rest = frozenset(j for j in slots if j >= 0)
        weights = [
            0.0 if j in rest else math.exp(odds[j] + likelihood(rest | {j}) - likelihood(rest))
            for j in range(n)
        ]
        weights.append(float(len(slots) - len(rest)) if corrected else 1.0)
        chosen = int(np.searchsorted(np.cumsum(weights), second * sum(weights), side="right"))
        slots[slot] = chosen if chosen < n else -1
        for j in slots:
            if j >= 0:
                totals[j] += 1
