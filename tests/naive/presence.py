"""The obvious version of the presence rates: dictionaries, one record at a time."""

from __future__ import annotations

from collections import defaultdict


def held(x: float, low: float, high: float) -> float:
    return min(max(x, low), high)


class Presence:
    def __init__(self, user_spread: float, item_spread: float) -> None:
        self.user_spread, self.item_spread = user_spread, item_spread
        self.told = 10.0  # the overall rate starts at .1, with the information 100
        self.information = 100.0
        self.items: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self.users: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def priors(
        self, user: int, items: list[int], weights: list[float], information: float
    ) -> list[float]:
        """Count the cells of one record and return the prior of each."""
        for item, weight in zip(items, weights, strict=True):
            self.items[item][0] += information * weight
            self.items[item][1] += information
            self.told += information * weight
            self.information += information
        overall = held(self.told / self.information, 0.001, 0.95)
        k = 1 / (self.item_spread * overall) ** 2
        rates = []
        for item in items:
            told, of = self.items[item]
            rates.append(held((k * overall + told) / (k + of), 0.001, 0.95))
        for weight, rate in zip(weights, rates, strict=True):
            self.users[user][0] += information * weight
            self.users[user][1] += information * rate
        k = 1 / (self.user_spread**2 * overall)
        told, of = self.users[user]
        busy = held((k + told) / (k + of), 0.05, 20)
        return [held(busy * rate, 0.001, 0.95) for rate in rates]
