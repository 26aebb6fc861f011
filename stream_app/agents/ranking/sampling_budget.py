"""How many lists may be scored now: a bounded number a second, so that measuring stays cheap.

    tokens <- min(SAVED, tokens + A_SECOND dt)        one token a list

A list costs the event loop about 0.2 ms, so the bound is half a percent of its time. A stream that
was quiet may spend what it saved.
"""

from __future__ import annotations

import time
from collections.abc import Callable

A_SECOND = 25.0
SAVED = 250.0


class SamplingBudget:
    """Tokens, one for each list that is scored; `clock` returns seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens, self._time = SAVED, clock()

    @property
    def available(self) -> int:
        """How many lists may be scored now."""
        now = self._clock()
        self._tokens = min(SAVED, self._tokens + A_SECOND * (now - self._time))
        self._time = now
        return int(self._tokens)

    def spend(self, lists: int) -> None:
        """Take tokens for lists that are scored."""
        self._tokens -= lists
