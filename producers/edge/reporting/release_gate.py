"""What must be so before anything is drawn: the recommender was reached, and the clock is right.

Only at the recommender an older copy of the store is found: it would draw a second report under
numbers that were used, and spend what is spent. A clock behind the newest release would date
releases back; one far ahead of it would open budgets for good.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from producers.daemon.conditions import Conditions
from producers.edge.reporting.book import Book, day_of
from producers.journal import Journal
from stream_app.errors import UserError

RETRY_SECONDS = 30.0


class ReleaseGate:
    """Says whether releases may be drawn, and in `conditions` why not."""

    def __init__(
        self, check: Callable[[Sequence[Journal]], None] | None, conditions: Conditions
    ) -> None:
        self._compare, self._conditions = check, conditions
        self._compare_at = -float("inf")

    def is_open(self, books: Collection[Book], now: float, steady: float, *, reached: bool) -> bool:
        """Return whether the books may release at this time."""
        if not reached:
            self._conditions.holds(
                "unreached",
                "nothing is released before the recommender was reached once; it is made up for "
                "later",
            )
            return False
        self._conditions.passed("unreached")
        return self._are_newest(books, steady) and self._clock_is_right(books, now)

    def _are_newest(self, books: Collection[Book], steady: float) -> bool:
        new = [book for book in books if not book.checked]
        if new and self._compare is not None:
            if steady < self._compare_at:
                return False
            try:
                self._compare([book.journal for book in new])
            except UserError as error:
                self._compare_at = steady + RETRY_SECONDS
                self._conditions.holds("older", f"{error}; nothing is released before")
                return False
        self._conditions.passed("older")
        for book in new:
            book.checked = True
        return True

    def _clock_is_right(self, books: Collection[Book], now: float) -> bool:
        day = day_of(now)
        try:
            newest = max((book.journal.epoch(day) for book in books), default=day)
        except UserError as error:  # far ahead
            self._conditions.holds("clock", str(error))
            return False
        if newest > day:
            self._conditions.holds(
                "clock",
                f"the clock says day {day}, before the newest release of this store ({newest}): "
                "nothing is reported until it is later; set the clock right",
            )
            return False
        self._conditions.passed("clock")
        return True
