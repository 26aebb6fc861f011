"""Sets of k, the obvious way: every set listed, and the draw item by item."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.float64]


def law(weights: list[Fraction], k: int) -> dict[tuple[int, ...], Fraction]:
    """Return P(set), in proportion to the product of its weights, of every set of k places."""
    products = {}
    for places in combinations(range(len(weights)), k):
        product = Fraction(1)
        for place in places:
            product *= weights[place]
        products[places] = product
    total = sum(products.values())
    return {places: product / total for places, product in products.items()}


def table(weights: Weights, columns: Weights) -> Weights:
    """Return E (k + 1, n + 1), an entry after the other."""
    found = np.zeros((len(columns) + 1, len(weights) + 1))
    found[0] = 1.0
    for i, weight in enumerate(weights):
        for r, factor in enumerate(columns, 1):
            found[r, i + 1] = found[r, i] + weight * factor * found[r - 1, i]
    return found


def steps(weights: Weights, columns: Weights) -> Iterator[tuple[int, int, float, bool]]:
    """Yield (item i, r still wanted, the rarer probability, whether it is that of taking i)."""
    entries = table(weights, columns)
    for i in range(len(weights)):
        for r in range(1, min(i + 1, len(columns)) + 1):
            taking = weights[i] * columns[r - 1] * entries[r - 1, i]
            leaving = entries[r, i]
            yield i, r, float(min(taking, leaving) / (taking + leaving)), bool(taking <= leaving)


def draw(weights: Weights, columns: Weights, words: NDArray[np.uint64]) -> list[int]:
    """Return the places that these words take, from the last item to the first."""
    rare = {(i, r): (chance, takes) for i, r, chance, takes in steps(weights, columns)}
    chosen, wanted = [], len(columns)
    for i in reversed(range(len(weights))):
        if wanted:
            chance, takes = rare[i, wanted]
            if (Fraction(int(words[i]), 2**64) < Fraction(chance)) == takes:
                chosen.append(i)
                wanted -= 1
    return chosen


def exact_law_of_floats(weights: Weights, columns: Weights) -> dict[tuple[int, ...], Fraction]:
    """Return P(set of places) of the draw as it is computed, floats taken as the rationals that
    they are."""
    chances = {(i, r): (Fraction(rare), takes) for i, r, rare, takes in steps(weights, columns)}
    found = {}
    for places in combinations(range(len(weights)), len(columns)):
        probability, wanted = Fraction(1), len(columns)
        for i in reversed(range(len(weights))):
            if wanted:
                rare, takes = chances[i, wanted]
                probability *= rare if (i in places) == takes else 1 - rare
                wanted -= i in places
        found[places] = probability
    return found
