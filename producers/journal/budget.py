"""The cost of a release on its own, as integers that are rounded up, and the limits of a journal.

    debit = ceil(reports * epsilon * 10^9)         nano-epsilon of one release

The debits of one rating add up, whatever has reported on it: a report on a cell is also a report on
the value (two values are two states of one cell), so a rating reported under both is protected only
by the sum of the two epsilons. They are shown apart, because a value's epsilon hides no presence.
What the whole person may spend is in the account (`producers.person`).

Every item may be reported at most `reports` times in a user's life, whatever the cost. A window
counts what was released in its newest epochs; the stored epoch is the largest seen, so setting the
clock back frees no budget. Setting it forward would free the window at once and date all later
releases in the future: an epoch more than 366 beyond the stored one is refused unless the caller
trusts the clock. A clock that is wrong by less is not detected.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from producers.person.enrolment import ATTO, NANO, shown
from producers.person.remaining_reports import checked_share
from producers.person.reports import NOTHING, Costing

CLOCK_EPOCHS = 366  # largest number of days between the last release and the next one


@dataclass(frozen=True)
class Debit:
    """What one release costs: nano-epsilon and 10^-18 of delta, for so many reports; how many of
    them are `again`, of keys that were reported before."""

    adjacency: str
    nano: int
    atto: int
    reports: int
    again: int = 0


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


def _up(amount: Fraction, unit: int, times: int) -> int:
    if not isinstance(amount, Fraction) or amount.numerator < 0:
        raise ValueError(f"epsilon {amount!r}: a debit is an exact number, Fraction(2), from 0 up")
    return -(-times * amount.numerator * unit // amount.denominator)


@dataclass(frozen=True)
class Limits:
    """On how many `reports` of one item a user may ever report; `trust_clock`: accept an epoch far
    beyond the stored one; see the module. `share`: the part of a person's budget for items that
    were reported before, the rest being for others (`producers.person.remaining_reports`); None: no
    parts."""

    reports: int = 1
    trust_clock: bool = False
    share: Fraction | None = None

    def __post_init__(self) -> None:
        if type(self.reports) is not int or not 1 <= self.reports < 2**32:
            raise ValueError(f"reports {shown(self.reports)}: give a whole number from 1 up")
        if self.share is not None:
            checked_share(self.share)
