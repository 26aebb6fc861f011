"""A mechanism as a measurement: input metric, output measure and privacy map.

    d(x, x') <= d_in   implies   D(M(x), M(x')) <= map(d_in)

The vocabulary is that of OpenDP (Gaboardi, Hay, Vadhan: A Programming Framework for OpenDP, 2020).
Inputs are measured by one of

    DiscreteDistance    0 where two inputs are equal, else 1; of the value of a rating, or of the
                        whole cell, "no rating" included
    SymmetricDistance   the number of items that are in one of two profiles alone, or of people
                        whose vectors are in one of two sums alone

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

from stream_app.privacy.exact.integer_tables import exp_bounds


class InputMetric(StrEnum):
    """How far apart two inputs of a mechanism are."""

    VALUE = "DiscreteDistance of the value of a rating"
    CELL = "DiscreteDistance of a cell"
    PROFILE = "SymmetricDistance of the items of a profile"
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
    delta: Fraction = Fraction(0)

    def __str__(self) -> str:
        if self.epsilon is None:
            return "unbounded"
        return f"({self.epsilon}, {float(self.delta):.3g})" if self.delta else str(self.epsilon)


NO_LOSS = Loss(Fraction(0))


def group(epsilon: Fraction | None, delta: Fraction, distance: int) -> Loss:
    """Return the loss of two inputs that are `distance` neighbours apart: k epsilon (Dwork and Roth
    2014, Theorem 2.2), and delta times the sum of e^(i epsilon), i < k, rounded up (Vadhan 2017,
    Lemma 2.2, before its bound k e^(k epsilon))."""
    if distance < 0:
        raise ValueError(f"distance {distance}: a number of items, 0 or more")
    if distance == 0 or epsilon is None:
        return Loss(epsilon) if distance else NO_LOSS
    if not delta:
        return Loss(distance * epsilon)
    factor, total, power = exp_bounds(epsilon)[1], Fraction(0), Fraction(1)
    for _ in range(distance):
        total, power = total + power, power * factor
        if delta * total >= 1:  # delta 1 says nothing, and more is no probability
            return Loss(distance * epsilon, Fraction(1))
    return Loss(distance * epsilon, delta * total)


class Adjacency(StrEnum):
    """The difference between two neighbouring inputs; epsilons of different kinds do not add."""

    CELL = "cell"  # one (user, item) cell, missing <-> present included
    VALUE = "value"  # the value of one rating whose presence is public
    EVENT = "event"  # one rating event, added or replaced by nothing
    USER = "user"  # one user's whole record
    NOTHING = "nothing"  # no neighbours: nothing is protected
