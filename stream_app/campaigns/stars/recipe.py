"""The stages of *stars*, and their shares of the budget.

    bias, bias, head, then `passes` times moment, refine

More budget carries more factors and a larger head; 2 % of a pass go to the moment of the tastes.
Chosen on validation parts of ML-1M, among those whose contributions have 60 kB at most there.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from stream_app.campaigns.plan import Wanted
from stream_app.campaigns.stars.shape import BEFORE, PASS, Shape

MOMENT_SHARE = Fraction(1, 50)


class Recipe(NamedTuple):
    """Items of the head, factors, and shares of bias, bias, head and each pass."""

    head: int
    factors: int
    before: tuple[Fraction, ...]
    passes: tuple[Fraction, ...]

    def wanted(self, items: int, whole: Fraction = Fraction(1)) -> list[Wanted]:
        """Return the stages over so many items, with `whole` of a budget; a head is at most all of
        them. ValueError for fewer items than factors."""
        if items < max(self.factors, 2):
            raise ValueError(
                f"stars over {items} items: it has {self.factors} factors; give as many items"
            )
        shape = Shape(items, min(self.head, items), self.factors)
        moments, refines = MOMENT_SHARE, 1 - MOMENT_SHARE
        shares = [*zip(BEFORE, self.before, strict=True)]
        for share in self.passes:
            shares += zip(PASS, (share * moments, share * refines), strict=True)
        return [Wanted(kind, shape.size(kind), whole * share) for kind, share in shares]


def _percent(*shares: int) -> tuple[Fraction, ...]:
    return tuple(Fraction(share, 100) for share in shares)


def recipe(epsilon: Fraction, share: Fraction = Fraction(1)) -> Recipe:
    """Return the recipe for a share of this epsilon's mu^2: about that of epsilon sqrt(share)."""
    square = epsilon * epsilon * share
    if square < 9:
        return Recipe(86, 2, _percent(2, 12, 7), _percent(31, 48))
    if square < 36:
        return Recipe(120, 3, _percent(2, 12, 7), _percent(31, 48))
    return Recipe(173, 3, _percent(2, 12, 7), _percent(31, 48))
