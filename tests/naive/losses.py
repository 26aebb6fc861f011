"""Delta of a whole interaction, the obvious way: every report of every step, in fractions.

A strategy knows all earlier reports. It chooses the next mechanism (among those that `admits`
allows) and the pair of inputs, or it stops; the value of a stop is the hockey stick max(0, P - g Q)
of what was seen, and the strategy takes what makes the sum largest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

Rows = tuple[Sequence[int], Sequence[int]]
Counts = tuple[int, ...]


def worst_delta(
    kinds: Sequence[Sequence[Rows]],
    admits: Callable[[Counts, int], bool],
    ratio: Fraction,
    total: int = 2**64,
) -> Fraction:
    """Return the largest delta at epsilon = ln(ratio) over all strategies.

    `kinds`: the pairs of rows of each mechanism, each row summing to `total`. `admits(counts, k)`:
    whether another report of mechanism k fits after `counts` reports of each.
    """

    @cache  # the order of equal reports does not matter
    def best(p: int, q: int, counts: Counts) -> Fraction:
        # p and q are integers over total^steps.
        weight = total ** sum(counts)
        found = max(Fraction(0), (p - ratio * q) / weight)
        for k, pairs in enumerate(kinds):
            if admits(counts, k):
                after = tuple(n + (i == k) for i, n in enumerate(counts))
                for rows in pairs:
                    reports = zip(*rows, strict=True)
                    values = [best(p * a, q * b, after) for a, b in reports]
                    found = max(found, sum(values, Fraction(0)))
        return found

    return best(1, 1, (0,) * len(kinds))


def within(most: Counts) -> Callable[[Counts, int], bool]:
    """Return the rule that allows `most[k]` reports of mechanism k, in any order."""
    return lambda counts, k: counts[k] < most[k]
