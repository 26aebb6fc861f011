"""A mechanism as a measurement: input metric, output measure and privacy map.

    d(x, x') <= d_in   implies   D(M(x), M(x')) <= map(d_in)

The vocabulary is that of OpenDP (Gaboardi, Hay, Vadhan: A Programming Framework for OpenDP, 2020).
Inputs are measured by one of

    DiscreteDistance    0 where two inputs are equal, else 1; of the value of a rating, or of the
                        whole cell, "no rating" included
    SymmetricDistance   the number of people whose vectors are in one of two sums alone

and outputs by

    MaxDivergence                        the largest ln P(z | x) / P(z | x'): pure epsilon
    Approximate(MaxDivergence)           the same but for delta: P(S | x) <= e^eps P(S | x') + delta
    no measure                           nothing is claimed

What a person loses over many releases is not in a map: it is the ledger's (`accounting/`).

Adjacency: the pairs of inputs whose reports epsilon makes hard to distinguish.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction


class InputMetric(StrEnum):
    """How far apart two inputs of a mechanism are."""

    VALUE = "DiscreteDistance of the value of a rating"
    CELL = "DiscreteDistance of a cell"
    PERSON = "SymmetricDistance of the people of a sum"


class OutputMeasure(StrEnum):
    """How far apart the distributions of two releases are."""

    PURE = "MaxDivergence"
    APPROXIMATE = "Approximate(MaxDivergence)"
    NOTHING = "none"


@dataclass(frozen=True)
class Loss:
    """A distance of two releases; epsilon None: no bound is claimed."""

    epsilon: Fraction | None

    def __str__(self) -> str:
        return "unbounded" if self.epsilon is None else str(self.epsilon)


NO_LOSS = Loss(Fraction(0))


class Adjacency(StrEnum):
    """The difference between two neighbouring inputs; epsilons of different kinds do not add."""

    CELL = "cell"  # one (user, item) cell, missing <-> present included
    VALUE = "value"  # the value of one rating whose presence is public
    EVENT = "event"  # one rating event, added or replaced by nothing
    USER = "user"  # one user's whole record
    NOTHING = "nothing"  # no neighbours: nothing is protected
