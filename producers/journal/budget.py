"""What a release costs, and how much a user may spend: integers, rounded against the spender.

    debit = reports * ceil(epsilon * 10^9)         nano-epsilon, for one adjacency
    limit = floor(budget * 10^9)                   per user and adjacency, for life or for a window

Epsilons of different adjacency protect different things and are never added: each has an account of
its own, and a budget holds for each. A window of W counts what was spent in the W newest epochs; an
epoch number that is stored is the largest seen so far, so a clock that is set back opens nothing.
Besides, every item may be reported on `reports` times in a user's life, whatever it costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

NANO = 10**9
ATTO = 10**18
LARGEST_BUDGET = 10**9
NOTHING = "nothing"  # the adjacency of what claims no protection


class Costing(Protocol):
    """What a debit needs to know of a mechanism."""

    @property
    def id(self) -> str:
        """The wire id."""

    @property
    def adjacency(self) -> str:
        """What the epsilon protects."""

    @property
    def epsilon(self) -> Fraction | None:
        """The claim per report; None where nothing is claimed."""


@dataclass(frozen=True)
class Debit:
    """What one release costs: nano-epsilon and 10^-18 of delta, for so many reports."""

    adjacency: str
    nano: int
    atto: int
    reports: int


def debit(mechanism: Costing, reports: int) -> Debit:
    """Return the cost of `reports` reports; 0 under the adjacency `nothing` without a claim."""
    epsilon, delta = mechanism.epsilon, getattr(mechanism, "delta", None)
    if epsilon is None:
        return Debit(NOTHING, 0, 0, reports)
    nano = reports * _up(epsilon, NANO)
    return Debit(str(mechanism.adjacency), nano, reports * _up(delta or Fraction(0), ATTO), reports)


def _up(amount: Fraction, unit: int) -> int:
    if not isinstance(amount, Fraction) or amount.numerator < 0:
        raise ValueError(f"epsilon {amount!r}: a debit is an exact number, Fraction(2), from 0 up")
    return -(-amount.numerator * unit // amount.denominator)


@dataclass(frozen=True)
class Limits:
    """How much each user may spend: `epsilon` (None: no limit) in life or in `window` epochs, and
    on how many `reports` of one item.

    >>> Limits(Fraction(20)).nano
    20000000000
    """

    epsilon: Fraction | None = None
    window: int | None = None
    reports: int = 1

    def __post_init__(self) -> None:
        if self.epsilon is not None and (
            not isinstance(self.epsilon, Fraction) or not 0 < self.epsilon <= LARGEST_BUDGET
        ):
            raise ValueError(
                f"budget {_shown(self.epsilon)}: give an exact number above 0 and at most "
                f"{LARGEST_BUDGET}, as Fraction(20)"
            )
        for name, count in (("window", self.window), ("reports", self.reports)):
            if count is None:
                continue
            if type(count) is not int or not 1 <= count < 2**32:
                raise ValueError(f"{name} {_shown(count)}: give a whole number from 1 up")
        if self.window is not None and self.epsilon is None:
            raise ValueError(f"window {self.window}: it goes with a budget; give one")

    @property
    def nano(self) -> int | None:
        """The limit in nano-epsilon, rounded down; None where there is none."""
        if self.epsilon is None:
            return None
        return self.epsilon.numerator * NANO // self.epsilon.denominator

    def __str__(self) -> str:
        span = "in all" if self.window is None else f"in any {self.window} epochs"
        return "no limit" if self.epsilon is None else f"{float(self.epsilon):g} {span}"


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "of thousands of digits"
    return text if len(text) <= 40 else f"{text[:37]}..."
