"""The terms on which a person takes part: enrolled once, kept in the journal, raised by command.

    budget   (epsilon, delta) for the whole person, in every `window` epochs in a row
    plan     the mechanism that the budget is for; "" until the first release decides it, or
             "adaptive" where any mechanisms may follow each other
    pace     of campaigns: their share of the budget, and the part of it in any 30 days (`pace`)
    held     the part of delta that an earlier plan holds, once it was changed (`changes`)

The (epsilon, delta) covers everything that the person ever reports within a window: added or
removed where presence is protected, every value replaced where it is public. Under a plan of one
mechanism the number of reports that fit is known in advance, so that exact composition applies
however the items, and the moment to stop, are chosen; the price is that no other mechanism may
follow, until the plan is changed. An account that is `simulated` belongs to a population played
from a file; it alone may have no limit. A withdrawn account releases nothing; what it has spent
stays spent.

Amounts are integers: epsilon in billionths and delta in 10^-18, both rounded down.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

from stream_app.errors import UserError

NANO = 10**9
ATTO = 10**18
LARGEST_BUDGET = 10**9
LARGEST_DELTA = Fraction(1, 1000)  # of one person in sum; above it is only for reproduction
ADAPTIVE = "adaptive"  # a plan: any mechanisms, by a Renyi filter
SUM = "sum"  # a plan: any mechanisms, by the sum of their epsilons
_LONGEST_PLAN = 200  # characters of a mechanism's id


@dataclass(frozen=True)
class Pace:
    """The share of a budget for campaigns, and the part of it in any 30 days; see `pace`.

    >>> str(Pace.parse("1/2:1/6"))
    '1/2:1/6'
    """

    share: Fraction = Fraction(3, 4)
    part: Fraction = Fraction(1, 12)

    def __post_init__(self) -> None:
        for each in (self.share, self.part):
            if not isinstance(each, Fraction) or not 0 < each <= 1 or each.denominator > NANO:
                raise ValueError(
                    f"pace {shown(each)}: give two exact numbers above 0 and at most 1, the share "
                    "of the budget and its part in 30 days, as 3/4:1/12"
                )

    @classmethod
    def parse(cls, text: str) -> Pace:
        """Return the pace in a text like 3/4:1/12; ValueError for any other."""
        try:
            share, part = (Fraction(each) for each in text.split(":"))
        except (ValueError, ZeroDivisionError):
            raise ValueError(f"pace {shown(text)}: give SHARE:PART, as 3/4:1/12") from None
        return cls(share, part)

    def __str__(self) -> str:
        return f"{self.share}:{self.part}"


@dataclass(frozen=True)
class PersonBudget:
    """The (epsilon, delta) of a whole person in `window` epochs (None: in all), under a plan.

    `epsilon` is None where there is no limit: a simulated account only. ValueError for a value that
    is not exact or out of range.

    >>> str(PersonBudget())
    '(20, 1e-06) in any 365 days'
    """

    epsilon: Fraction | None = Fraction(20)
    delta: Fraction = Fraction(1, 10**6)
    window: int | None = 365
    plan: str = ""
    held: Fraction = Fraction(0)
    pace: Pace = Pace()
    nano: int | None = field(init=False, repr=False)
    atto: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        epsilon, delta = self.epsilon, self.delta
        if epsilon is not None and (
            not isinstance(epsilon, Fraction) or not Fraction(1, NANO) <= epsilon <= LARGEST_BUDGET
        ):
            raise ValueError(
                f"budget {shown(epsilon)}: give an exact number above 0 and at most "
                f"{LARGEST_BUDGET}, as Fraction(20)"
            )
        if not isinstance(delta, Fraction) or not 0 <= delta <= LARGEST_DELTA:
            raise ValueError(
                f"delta {shown(delta)}: give an exact number from 0 to {LARGEST_DELTA}, as "
                "Fraction(1, 1000000); it is the probability that nothing is protected"
            )
        if not isinstance(self.held, Fraction) or not 0 <= self.held <= delta:
            raise ValueError(f"held {shown(self.held)}: give an exact number from 0 to {delta}")
        if self.window is not None and (
            type(self.window) is not int or not 1 <= self.window < 2**32
        ):
            raise ValueError(f"window {shown(self.window)}: give a whole number from 1 up")
        if not isinstance(self.plan, str) or len(self.plan) > _LONGEST_PLAN:
            raise ValueError(
                f"plan {shown(self.plan)}: give the id of a mechanism, as rr:5:1/2, or {ADAPTIVE}"
            )
        nano = None if epsilon is None else epsilon.numerator * NANO // epsilon.denominator
        object.__setattr__(self, "nano", nano)
        object.__setattr__(self, "atto", delta.numerator * ATTO // delta.denominator)

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self.nano is not None

    @property
    def terms(self) -> tuple[int | None, int, int | None]:
        """What two enrolments must have in common to be the same: epsilon, delta and window."""
        return self.nano, self.atto, self.window

    def raised(self, epsilon: Fraction | None) -> PersonBudget:
        """Return this budget with a larger epsilon; UserError for one that is not larger."""
        found = replace(self, epsilon=epsilon)
        if self.nano is None or (found.nano is not None and found.nano <= self.nano):
            raise UserError(
                f"the budget is {self}: it can only be raised, because what was released cannot be "
                "taken back; to release nothing more, withdraw the account (murmurec device "
                "withdraw)"
            )
        return found

    def __str__(self) -> str:
        if self.epsilon is None:
            return "no limit"
        span = "in all" if self.window is None else f"in any {self.window} days"
        return f"({float(self.epsilon):g}, {float(self.delta):g}) {span}"


NO_LIMIT = PersonBudget(None, Fraction(0), None)


@dataclass(frozen=True)
class Enrolment:
    """The account of one device: since which epoch, on which terms, withdrawn in which epoch (0:
    not withdrawn)."""

    device: bytes
    epoch: int
    budget: PersonBudget
    simulated: bool = False
    withdrawn: int = 0

    def __post_init__(self) -> None:
        for name, epoch in (("epoch", self.epoch), ("withdrawn", self.withdrawn)):
            if not 0 <= epoch < 2**32:
                raise ValueError(f"{name} {epoch}: must be 0 .. 2^32-1 (days since 1970)")
        if not self.budget.limited and not self.simulated:
            raise ValueError(
                "budget none: the account of a person has a limit, as Fraction(20); only a "
                "simulated one may do without"
            )

    def active(self, epoch: int) -> bool:
        """Return whether the account releases in an epoch: after it enrolled, not withdrawn."""
        return self.epoch < epoch and not self.withdrawn

    def check_limited(self, name: str) -> None:
        """Raise UserError for an account without a limit: a population's, and no person's."""
        if not self.budget.limited:
            raise UserError(
                f"{name} is a simulated account without a limit, which a population has that is "
                "played from a file, and a person's ratings need a budget: give a journal in "
                "another folder (--journal), and run murmurec device enrol with it"
            )

    def enrolled_again(self, budget: PersonBudget, epoch: int, *, simulated: bool) -> Enrolment:
        """Return the account after another enrolment: itself, or no longer withdrawn.

        UserError for other terms: a budget is raised by a command of its own, and a person's
        account never becomes a simulated one. The plan stays as it is.
        """
        if budget.terms != self.budget.terms or simulated != self.simulated:
            kind = "a simulated account" if self.simulated else "the account of a person"
            raise UserError(
                f"device {self.device.hex()} is enrolled as {kind} with a budget of {self.budget}"
                f"{_planned(self.budget)}, and these are other terms: raise a budget with murmurec "
                "device enrol --raise"
            )
        return replace(self, epoch=epoch, withdrawn=0) if self.withdrawn else self


def _planned(budget: PersonBudget) -> str:
    return f" for {budget.plan}" if budget.plan else ""


def shown(value: object) -> str:
    """Return a value for a message, shortened."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "of thousands of digits"
    return text if len(text) <= 40 else f"{text[:37]}..."
