"""When the owner of a shard's clock merges: soon after a change that counts has come.

One merge takes all that has come, in at most one entry a second; it waits until its own last entry
was read back, for some seconds. A merge that a frozen former owner writes has no effect or takes
less (`exchange_order.py`), so it does no harm. Time is an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class MergeClock:
    """Decides on merges of one shard: at most one in `seconds`."""

    seconds: float = 1.0
    patience_seconds: float = 5.0
    _written: tuple[int, ...] = ()
    _last_time: float = float("-inf")

    def due(
        self, now: float, counted: Sequence[int], newest: Sequence[int]
    ) -> tuple[int, ...] | None:
        """Return the ends of the merge to append now, or None. `counted`: of the changes that have
        come and count; `newest`: of the last merge that was read."""
        ends = tuple(max(end, at) for end, at in zip(counted, newest, strict=True))
        if ends == tuple(newest) or now - self._last_time < self.seconds:
            return None
        under_way = self._written != tuple(newest) and self._written != ()
        if under_way and now - self._last_time < self.patience_seconds:
            return None
        self._written, self._last_time = ends, now
        return ends
