"""The stages of *stars*, and their shares of the budget.

    bias, bias, head, then `passes` times moment, refine

More budget carries more factors and a larger head; 2 % of a pass go to the moment of the tastes.
Chosen on validation splits of ML-1M.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from stream_app.campaigns import triangle
from stream_app.campaigns.planning import Wanted

MOMENT_SHARE = Fraction(1, 50)


class Recipe(NamedTuple):
    """Items of the head, factors, and shares of bias, bias, head and each pass."""

    head: int
    factors: int
    before: tuple[Fraction, ...]
    passes: tuple[Fraction, ...]

    def wanted(self, items: int) -> list[Wanted]:
        """Return the stages over so many items; a head is at most all of them."""
        head = min(self.head, items)
        kinds = (("bias", 2 * items), ("bias", 2 * items), ("head", head * (head - 1) // 2))
        found = [
            Wanted(kind, size, share)
            for (kind, size), share in zip(kinds, self.before, strict=True)
        ]
        for share in self.passes:
            moment, refine = triangle.length(self.factors), items * (1 + self.factors)
            found.append(Wanted("moment", moment, share * MOMENT_SHARE))
            found.append(Wanted("refine", refine, share * (1 - MOMENT_SHARE)))
        return found


def _percent(*shares: int) -> tuple[Fraction, ...]:
    return tuple(Fraction(share, 100) for share in shares)


def recipe(epsilon: Fraction) -> Recipe:
    """Return the recipe of a campaign of this epsilon."""
    if epsilon < 3:
        return Recipe(86, 2, _percent(2, 12, 7), _percent(31, 48))
    if epsilon < 6:
        return Recipe(120, 3, _percent(2, 12, 7), _percent(31, 48))
    return Recipe(190, 4, _percent(2, 12, 7), _percent(31, 48))
