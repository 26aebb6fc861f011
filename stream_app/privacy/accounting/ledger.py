"""The budget of one person: (epsilon, delta) for everything that the person reports.

A plan (`plans.py`) is fixed at enrolment and determines what the budget admits: the counts of
mechanisms stated in advance, exactly; any mechanism, by a Renyi filter; or a plain sum.

With a window of W epochs the budget holds for the reports of any W epochs in a row: a report is
admitted if those of the last W epochs and it fit the plan. What was reported before is then part of
the world that both neighbours share.

All stored state is integers: counts by epoch and mechanism id. A decision compares integers; what a
mechanism costs is computed once per process and budget (`functools.lru_cache`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
        self._plan()

    def room(self, id: str, epoch: int = 0) -> int:
        """Return how many more reports of a mechanism fit in the window that ends with `epoch`."""
        return self._plan().room(self.used(epoch), id)

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
        at, after = self._at(epoch), self._after(epoch)
        kept = {(e, name): n for e, name, n in self.counts if e > after}
        kept[at, id] = kept.get((at, id), 0) + count
        counts = tuple((e, name, n) for (e, name), n in sorted(kept.items()) if n)
        return replace(self, counts=counts)

    def used(self, epoch: int = 0) -> dict[str, int]:
        """Return the reports by mechanism id in the window that ends with `epoch`."""
        after, found = self._after(epoch), dict[str, int]()
        for at, name, count in self.counts:
            if at > after:
                found[name] = found.get(name, 0) + count
        return found

    def spent(self, epoch: int = 0) -> float:
        """Return the epsilon, at the budget's delta, of the reports in the window.

        A figure to show: the guarantee is that of the whole plan, whatever was used of it.
        """
        return self._plan().spent(self.used(epoch))

    def _plan(self) -> Plan:
        return read_plan(self.plan, self.epsilon, self.delta, self.most_items)

    def _at(self, epoch: int) -> int:
        """Return the epoch that a report counts in: never before one that was counted already."""
        newest = self.counts[-1][0] if self.counts else 0
        return 0 if self.window is None else max(epoch, newest)

    def _after(self, epoch: int) -> int:
        return -1 if self.window is None else self._at(epoch) - self.window
