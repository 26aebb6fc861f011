"""What the stages of *stars* in a plan say: their order and sizes, over n items.

    bias     2 n                     twice
    head     h (h - 1) / 2           h items, n at most
    moment   d (d + 1) / 2           d factors, h at most    } one pass or more
    refine   n (1 + d)                                       }

Head and factors are not written in a plan: they follow from the sizes. Stages of another kind may
stand between these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from stream_app.campaigns.contribution_vectors import triangle_length
from stream_app.campaigns.plan import Stage

BEFORE = ("bias", "bias", "head")
PASS = ("moment", "refine")
KINDS = frozenset((*BEFORE, *PASS))
MOST_FACTORS = 32


class Shape(NamedTuple):
    """Items of the scope, items of the head, and factors."""

    items: int
    head: int
    factors: int

    def size(self, kind: str) -> int:
        """Return the integers of a contribution to a stage of this kind."""
        sizes = {"bias": 2 * self.items, "head": self.head * (self.head - 1) // 2}
        a_pass = self.items * (1 + self.factors)
        return (sizes | {"moment": triangle_length(self.factors), "refine": a_pass})[kind]


def shape_of(stages: Sequence[Stage], items: int) -> Shape | None:
    """Return the shape of the *stars* stages of a plan over `items`; None where it has none.

    Raises ValueError for another order, or for sizes that are of no shape.
    """
    found = [stage for stage in stages if stage.kind in KINDS]
    if not found:
        return None
    kinds, passes = tuple(stage.kind for stage in found), (len(found) - len(BEFORE)) // len(PASS)
    if passes < 1 or kinds != BEFORE + PASS * passes:
        raise ValueError(
            f"stages {', '.join(kinds)}: the order is {', '.join(BEFORE)}, then {', '.join(PASS)} "
            "once or more"
        )
    pairs = found[2].size
    shape = Shape(items, (1 + math.isqrt(1 + 8 * pairs)) // 2, found[-1].size // items - 1)
    if not 1 <= shape.factors <= min(shape.head, MOST_FACTORS) or shape.head > items:
        raise ValueError(
            f"a head of {shape.head} items and {shape.factors} factors: factors are at most "
            f"{MOST_FACTORS} and the items of the head, these at most the {items} of the scope"
        )
    for stage in found:
        if stage.size != (right := shape.size(stage.kind)):
            raise ValueError(
                f"stage {stage.kind} has {stage.size} integers; over {items} items, a head of "
                f"{shape.head} and {shape.factors} factors it has {right}"
            )
    return shape
