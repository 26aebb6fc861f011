"""The obvious version of the presence rates: dictionaries, one record at a time."""

from __future__ import annotations

import math
from collections import defaultdict


def held(x: float, low: float, high: float) -> float:
    return min(max(x, low), high)


def activity(present: float, information: float, expected: float) -> float:
    """Return the posterior mean of f: ln f normal, E f = 1; present is normal around f expected."""
    weighed = []
    for step in range(-30, 21):
        f = math.exp(step / 10)
        prior = -((step / 10 + 0.405) ** 2) / (2 * 0.81)
        weighed.append((prior - (present - f * expected) ** 2 / (2 * information), f))
    best = max(log for log, _ in weighed)
    odds = [(math.exp(log - best), f) for log, f in weighed]
    return sum(p * f for p, f in odds) / sum(p for p, _ in odds)


class Presence:
    def __init__(self) -> None:
        self.present = 10.0  # the overall rate starts at .1, with the information 100
        self.information = 100.0
        self.items: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self.users: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])

    def priors(
        self, user: int, items: list[int], weights: list[float], information: float
    ) -> list[float]:
        """Count the cells of one record and return the prior of each."""
        counts = self.users[user]
        for item, weight in zip(items, weights, strict=True):
            self.items[item][0] += information * weight
            self.items[item][1] += information
            self.present += information * weight
            self.information += information
            counts[0] += information * weight
            counts[1] += information
        overall = held(self.present / self.information, 0.001, 0.95)
        k = 1 / (0.5 * overall) ** 2
        rates = []
        for item in items:
            present, counted = self.items[item]
            rates.append(held((k * overall + present) / (k + counted), 0.001, 0.95))
        counts[2] += information * sum(rates)
        return [held(activity(*counts) * rate, 0.001, 0.95) for rate in rates] if items else []
