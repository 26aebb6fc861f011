"""How many lists may be prepared now: a bounded number a second, so that measuring stays cheap.

    tokens <- min(SAVED, tokens + A_SECOND dt)        one token a list, AT_ONCE a batch

A list costs the event loop 0.1 to 0.2 ms, so the bounds are one percent of its time and at most
10 ms at a time. Of the lists that are prepared, about four in ten are scored: the item was liked
and the device had a history. A stream that was quiet may spend what it saved; a replay of seconds
lives on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

A_SECOND = 50.0
SAVED = 500.0
AT_ONCE = 50


class SamplingBudget:
    """Tokens, one for each list that is prepared; `clock` returns seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens, self._time = SAVED, clock()

    @property
    def available(self) -> int:
        """How many lists may be prepared for the next batch."""
        now = self._clock()
        self._tokens = min(SAVED, self._tokens + A_SECOND * (now - self._time))
        self._time = now
        return min(AT_ONCE, int(self._tokens))

    def spend(self, lists: int) -> None:
        """Take tokens for lists that are prepared."""
        self._tokens -= lists
