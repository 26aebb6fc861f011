"""When a new item side is derived: at most once a second, and only after enough has changed.

    due  <=>  changed by GROWTH of the ratings counted, or by any where the stream rests, or items
              have entered the head
         and  1 s and PAUSE times the last derivation have passed since it ended

So a derivation takes at most a quarter of one core, however large the table is.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LEAST_SECONDS = 1.0
PAUSE = 3.0
GROWTH = 0.02
REST_SECONDS = 10.0
LEAST_RATINGS = 100


class Schedule:
    """The times and sizes of derivations; `clock` returns seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ratings, self._changes = 0, 0
        self._ended, self._wait = -float("inf"), 0.0

    def due(self, ratings: int, changes: int = 0) -> bool:
        """Return whether to derive now that `ratings` are counted and the head has changed so many
        times."""
        waited = self._clock() - self._ended
        if ratings < LEAST_RATINGS or waited < self._wait:
            return False
        if self._ratings * (1 + GROWTH) <= ratings or changes != self._changes:
            return True
        return ratings > self._ratings and waited >= REST_SECONDS

    def ended(self, ratings: int, changes: int, seconds: float) -> None:
        """Note that a derivation of `ratings`, after so many changes of the head, took `seconds`
        and ended now."""
        self._ratings, self._changes, self._ended = ratings, changes, self._clock()
        self._wait = max(LEAST_SECONDS, PAUSE * seconds)
