"""The clock: who may write the next cut, and when.

Exactly one worker owns the clock; it appends a cut when something has arrived and either `seconds`
have
gone by since the last one or a partition has a full round waiting. A cut moves each partition on
by at
most `round_records`. The clock has one cut in flight and writes no other before it has read it
back, or
one of another clock in its place: so a second, frozen or late clock can only lose a race, never do
harm.

Time, ownership and the network are arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stream_app.wire import Cut


@dataclass
class Clock:
    """Decides on cuts; `own` and `disown` follow the assignment of the one partition of the cut
    log."""

    seconds: float = 0.2
    round_records: int = 2000
    patience_seconds: float = 5.0

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ValueError(f"seconds {self.seconds}: the time between two cuts must be above 0")
        if self.round_records < 1:
            raise ValueError(f"round_records {self.round_records}: a round holds at least 1 record")
        self.owned = False
        self._read_to_end = False
        self._in_flight = 0
        self._last_time = float("-inf")

    def own(self) -> None:
        """Become the owner; no cut is written before the cut log was read to its end."""
        self.owned, self._read_to_end, self._in_flight = True, False, 0

    def disown(self) -> None:
        """Stop writing cuts."""
        self.owned = False

    def at_end_of_cuts(self) -> None:
        """Learn that everything in the cut log so far has been read."""
        self._read_to_end = True

    def due(
        self,
        now: float,
        newest_cut: tuple[int, tuple[int, ...]],
        received: Sequence[int],
        epoch: int,
    ) -> Cut | None:
        """Return the cut to append now, or None; `now` in seconds of any steady clock."""
        number, ends = newest_cut
        if not (self.owned and self._read_to_end):
            return None
        if self._in_flight > number and now - self._last_time < self.patience_seconds:
            return None
        waiting = [max(0, here - end) for here, end in zip(received, ends, strict=True)]
        if not any(waiting):
            return None
        if now - self._last_time < self.seconds and max(waiting) < self.round_records:
            return None
        self._in_flight, self._last_time = number + 1, now
        moved = (e + min(w, self.round_records) for e, w in zip(ends, waiting, strict=True))
        return Cut(number + 1, tuple(moved), epoch)
