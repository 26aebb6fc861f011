"""The cost of a release and the limits of a user: integers; costs are rounded up, limits down.

    debit = ceil(reports * epsilon * 10^9)         nano-epsilon of one release
    limit = floor(budget * 10^9)                   per user, for life or for a window
    spent(value) + spent(cell) + debit <= limit    one limit for all reports about the ratings

A report on a cell is also a report on the value (two values are two states of one cell), so the
epsilons of both count together: a rating reported under both is protected only by the sum of the
two epsilons. They are shown apart, because a value's epsilon hides no presence. A profile's debit
is a cell's.

A window of W counts the budget spent in the W newest epochs; the stored epoch is the largest seen,
so setting the clock back frees no budget. Setting it forward would free the window at once and date
all later releases in the future: an epoch more than 366 beyond the stored one is refused unless the
caller trusts the clock. A clock that is wrong by less is not detected.

The deltas of a user add up to 1/1000 at most (`LARGEST_DELTA`, within the same window): delta is
the probability that a release protects nothing, and a larger one is no protection. Besides,
every item may be reported at most `reports` times in a user's life, whatever the cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

NANO = 10**9
ATTO = 10**18
LARGEST_BUDGET = 10**9
LARGEST_DELTA = Fraction(1, 1000)  # of one user in sum; above it is only for reproduction
CLOCK_EPOCHS = 366  # largest number of days between the last release and the next one
NOTHING = "nothing"  # the adjacency of a mechanism that claims no protection


class Costing(Protocol):
    """The part of a mechanism that its debit depends on."""

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
    """Return the cost of `reports` reports; 0 under the adjacency `nothing` without a claim.

    Rounded up once for the release: a sum of debits is never below the truth, and s reports of
    E / s in one release cost E where that is a whole number of nano-epsilon.
    """
    epsilon, delta = mechanism.epsilon, getattr(mechanism, "delta", None)
    if epsilon is None:
        return Debit(NOTHING, 0, 0, reports)
    nano, atto = _up(epsilon, NANO, reports), _up(delta or Fraction(0), ATTO, reports)
    return Debit(str(mechanism.adjacency), nano, atto, reports)


def fitting(mechanism: Costing, nano: int | None, atto: int | None) -> int | None:
    """Return how many reports of one release fit these amounts; None if neither limits them."""
    if mechanism.epsilon is None:
        return 0 if nano is not None else None
    delta = getattr(mechanism, "delta", None) or Fraction(0)
    pairs = ((nano, NANO, mechanism.epsilon), (atto, ATTO, delta))
    counts = [
        max(0, left) * each.denominator // (each.numerator * unit)
        for left, unit, each in pairs
        if left is not None and each
    ]
    return min(counts, default=None)


def _up(amount: Fraction, unit: int, times: int) -> int:
    if not isinstance(amount, Fraction) or amount.numerator < 0:
        raise ValueError(f"epsilon {amount!r}: a debit is an exact number, Fraction(2), from 0 up")
    return -(-times * amount.numerator * unit // amount.denominator)


@dataclass(frozen=True)
class Limits:
    """How much each user may spend: `epsilon` (None: no limit) and `delta` (None: no limit) in life
    or in `window` epochs, and on how many `reports` of one item.

    `trust_clock`: accept an epoch far beyond the stored one; see the module.

    >>> Limits(Fraction(20)).nano
    20000000000
    """

    epsilon: Fraction | None = None
    window: int | None = None
    reports: int = 1
    delta: Fraction | None = LARGEST_DELTA
    trust_clock: bool = False

    def __post_init__(self) -> None:
        if self.epsilon is not None and (
            not isinstance(self.epsilon, Fraction) or not 0 < self.epsilon <= LARGEST_BUDGET
        ):
            raise ValueError(
                f"budget {_shown(self.epsilon)}: give an exact number above 0 and at most "
                f"{LARGEST_BUDGET}, as Fraction(20)"
            )
        if self.delta is not None and (
            not isinstance(self.delta, Fraction) or not 0 <= self.delta <= 1
        ):
            raise ValueError(
                f"delta {_shown(self.delta)}: give an exact number from 0 to 1, as "
                "Fraction(1, 1000)"
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

    @property
    def atto(self) -> int | None:
        """The largest delta in sum in 10^-18, rounded down; None where there is none."""
        return None if self.delta is None else self.delta.numerator * ATTO // self.delta.denominator

    def hold(self, cost: Debit) -> bool:
        """Return whether a limit applies to this cost."""
        return self.epsilon is not None or (self.delta is not None and cost.atto > 0)

    def __str__(self) -> str:
        span = "in all" if self.window is None else f"in any {self.window} epochs"
        return "no limit" if self.epsilon is None else f"{float(self.epsilon):g} {span}"


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "of thousands of digits"
    return text if len(text) <= 40 else f"{text[:37]}..."
