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
        self.pairs: list[tuple[float, float]] = []  # products of reports of an item
        self.items: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self.users: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])

    def priors(
        self, user: int, items: list[int], weights: list[float], information: float
    ) -> list[float]:
        """Count the cells of one record and return the prior of each."""
        counts = self.users[user]
        for item, weight in zip(items, weights, strict=True):
            present, counted = self.items[item]
            self.pairs.append((information * weight * present, information * counted))
            self.items[item][0] += information * weight
            self.items[item][1] += information
            self.present += information * weight
            self.information += information
            counts[0] += information * weight
            counts[1] += information
        overall = held(self.present / self.information, 0.001, 0.95)
        square = overall**2
        products, informations = (math.fsum(pair[n] for pair in self.pairs) for n in (0, 1))
        mean_square = (products + 1.25 / square) / (informations + 1 / square**2)
        k = 1 / held(mean_square - square, 0.05 * square, 9 * square)
        rates = []
        for item in items:
            present, counted = self.items[item]
            rates.append(held((k * overall + present) / (k + counted), 0.001, 0.95))
        counts[2] += information * sum(rates)
        return [held(activity(*counts) * rate, 0.001, 0.95) for rate in rates] if items else []


class Mean:
    """The mean rating with its variance: the debiased one of all cells so far, and a first one of
    3.85 with the variance .25."""

    def __init__(self) -> None:
        self.cells: list[tuple[float, float]] = []  # information times value, and times weight
        self.limit = math.inf  # of the variance of the next start

    def estimate(self) -> tuple[float, float]:
        """Return the mean and its variance; an infinite one where no cell seems to be rated."""
        rated = sum(y for _, y in self.cells)
        if rated <= 0:
            return 3.0, math.inf
        mean = sum(x for x, _ in self.cells) / rated
        return held(mean, 1, 5), sum((x - mean * y) ** 2 for x, y in self.cells) / rated**2

    def start(
        self, values: list[float], weights: list[float], information: float
    ) -> tuple[float, float] | None:
        """Count the cells of a record; return a start if there is one before them."""
        pairs = zip(values, weights, strict=True)
        self.cells += [(information * x, information * y) for x, y in pairs]
        mean, variance = self.estimate()
        precision = 1 / variance if variance > 0 and self.limit < math.inf else 0.0
        if (variance == 0 and self.limit < math.inf) or 1 / (4 + precision) > self.limit:
            return None
        self.limit = 1 / (4 + precision) / 4
        return (4 * 3.85 + precision * mean) / (4 + precision), 1 / (4 + precision)
