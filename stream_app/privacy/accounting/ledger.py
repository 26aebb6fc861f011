"""The budget of one person: (epsilon, delta) for everything that the person reports.

A plan (`plans.py`) is fixed at enrolment and determines what the budget admits: the counts of
mechanisms stated in advance, exactly; any mechanism, by a Renyi filter; or a plain sum.

With a window of W epochs the budget holds for the reports of any W epochs in a row: a report is
admitted if those of the last W epochs and it fit the plan. What was reported before is then part of
the world that both neighbours share.

All stored state is integers and text: the plan, and counts by epoch and mechanism id. A decision
compares integers, and does not read the history: the counts of the window are kept as sums. What a
mechanism costs is computed once per process and budget (`functools.lru_cache`).
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction

from stream_app.privacy.accounting.plans import Plan, pin, read_plan
from stream_app.privacy.profiles.mechanism import MOST_ITEMS

DEFAULT_EPSILON = Fraction(20)
DEFAULT_DELTA = Fraction(1, 10**6)
YEAR = 365  # epochs of a day
Counts = tuple[tuple[int, str, int], ...]  # (epoch, mechanism id, reports), sorted


@dataclass(frozen=True)
class PersonLedger:
    """What one person may still report; a value, of which `charge` returns the successor.

    >>> ledger = PersonLedger.enrol(plan="rr:5:1/2")
    >>> ledger.plan, ledger.room("rr:5:1/2"), ledger.room("rr:5:1")
    ('rr:5:1/2*93', 93, 0)
    >>> ledger = ledger.charge("rr:5:1/2", 40, epoch=20_000)
    >>> ledger.room("rr:5:1/2", epoch=20_001), ledger.room("rr:5:1/2", epoch=20_365)
    (53, 93)
    """

    epsilon: Fraction
    delta: Fraction
    plan: str
    window: int | None = YEAR
    most_items: int = MOST_ITEMS
    counts: Counts = ()
    _plan: Plan = field(init=False, repr=False, compare=False)
    _used: dict[str, int] = field(init=False, repr=False, compare=False)  # all of `counts`

    @classmethod
    def enrol(
        cls,
        epsilon: Fraction = DEFAULT_EPSILON,
        delta: Fraction = DEFAULT_DELTA,
        plan: str = "adaptive",
        window: int | None = YEAR,
        most_items: int = MOST_ITEMS,
    ) -> PersonLedger:
        """Return a ledger that has spent nothing, its plan completed; see the module.

        `window`: epochs in a row that the budget holds for; None for all together. `most_items`:
        the largest profile that the device ever releases. ValueError for a plan that does not fit.
        """
        return cls(epsilon, delta, pin(plan, epsilon, delta, most_items), window, most_items)

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise ValueError(f"window {self.window}: at least 1 epoch, or none for all together")
        order = [(epoch, id) for epoch, id, _ in self.counts]
        if order != sorted(set(order)) or any(count < 1 for *_, count in self.counts):
            raise ValueError("counts: give each epoch and mechanism once, sorted, with 1 or more")
        plan = read_plan(self.plan, self.epsilon, self.delta, self.most_items)
        used: dict[str, int] = {}
        for _, id, count in self.counts:
            used[id] = used.get(id, 0) + count
        object.__setattr__(self, "_plan", plan)
        object.__setattr__(self, "_used", used)

    def room(self, id: str, epoch: int = 0) -> int:
        """Return how many more reports of a mechanism fit in the window that ends with `epoch`."""
        return self._plan.room(self.used(epoch), id)

    def admits(self, id: str, count: int = 1, epoch: int = 0) -> bool:
        """Return whether `count` more reports fit."""
        return 0 <= count <= self.room(id, epoch)

    def charge(self, id: str, count: int = 1, epoch: int = 0) -> PersonLedger:
        """Return the ledger after `count` more reports; ValueError if they do not fit."""
        left = self.room(id, epoch)
        if not 0 <= count <= left:
            raise ValueError(
                f"{count} reports of {id}: the budget of this person has room for {left}"
            )
        if not count:
            return self  # nothing counts in `epoch`, so no earlier epoch may be forgotten
        at, used = self._at(epoch), self.used(epoch)
        kept = self.counts[self._forgotten(epoch) :]
        first = len(kept)
        while first and kept[first - 1][0] == at:
            first -= 1
        newest = {name: n for _, name, n in kept[first:]}
        newest[id] = newest.get(id, 0) + count
        used[id] = used.get(id, 0) + count
        after = copy(self)  # the checks of a constructor would read every count again
        counts = (*kept[:first], *((at, name, n) for name, n in sorted(newest.items())))
        object.__setattr__(after, "counts", counts)
        object.__setattr__(after, "_used", used)
        return after

    def used(self, epoch: int = 0) -> dict[str, int]:
        """Return the reports by mechanism id in the window that ends with `epoch`."""
        found = dict(self._used)
        for _, id, count in self.counts[: self._forgotten(epoch)]:
            found[id] -= count
        return found

    def spent(self, epoch: int = 0) -> float:
        """Return the epsilon, at the budget's delta, of the reports in the window.

        A figure to show: the guarantee is that of the whole plan, whatever was used of it.
        """
        return self._plan.spent(self.used(epoch))

    def _at(self, epoch: int) -> int:
        """Return the epoch that a report counts in: never before one that was counted already."""
        newest = self.counts[-1][0] if self.counts else 0
        return 0 if self.window is None else max(epoch, newest)

    def _forgotten(self, epoch: int) -> int:
        """Return how many of the counts, the oldest ones, are before the window."""
        if self.window is None:
            return 0
        after, number = self._at(epoch) - self.window, 0
        while number < len(self.counts) and self.counts[number][0] <= after:
            number += 1
        return number
