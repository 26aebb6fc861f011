"""What a start from the newest durable checkpoint would repeat, and whether a checkpoint is due.

    cost        seconds spent applying what no durable checkpoint covers: about as long as a
                replay of it takes
    due         cost >= replay_seconds, and 4 times what the last checkpoint took to be written
                have passed since, so that writing takes at most a fifth of the time; a minute of it
                counts at most, since the rest may be a broker that was away
    or          a tenth of the retention of ratings has passed since the first of it: a start must
                find it in the log
    or          `checkpoint_seconds`, where it is set, have passed since the last checkpoint

So a quiet stream and a large state cost few checkpoints, and a kill costs no more than a bounded
replay at any rate.
"""

from __future__ import annotations

from dataclasses import dataclass

_PAUSE = 4.0  # seconds without writing for each second that a checkpoint took to be written
_LONGEST_WRITE = 60.0  # seconds
_RETENTION_SHARE = 0.1


@dataclass(eq=False)
class ReplayCost:
    """The cost since the last durable checkpoint; times are of one steady clock, in seconds.

    `longest` is the time between two checkpoints while something arrives, `retention` that for
    which ratings are kept; None: no limit.
    """

    limit: float
    longest: float | None = None
    retention: float | None = None
    seconds: float = 0.0
    _since: float | None = None  # when the first uncovered round was applied
    _frozen: float = 0.0  # part of `seconds` that the checkpoint being written covers
    _last_time: float = 0.0  # of the last checkpoint
    _durable_time: float = 0.0
    _pause: float = 0.0  # from then on

    def start(self, now: float) -> None:
        """Begin with a state that a checkpoint covers, or that is new."""
        self.seconds = self._frozen = 0.0
        self._since, self._last_time, self._pause = None, now, 0.0

    def applied(self, seconds: float, now: float) -> None:
        """Add a round that took `seconds` to apply."""
        self.seconds += seconds
        if self._since is None:
            self._since = now

    def frozen(self, now: float) -> None:
        """Record that a checkpoint of everything applied so far is being written."""
        self._frozen, self._last_time = self.seconds, now

    def durable(self, now: float) -> None:
        """Record that this checkpoint is durable."""
        self.seconds -= self._frozen
        self._durable_time = now
        self._pause = _PAUSE * min(now - self._last_time, _LONGEST_WRITE)
        self._since = self._last_time if self.seconds > 0 else None

    def due(self, now: float, factor: float = 1.0) -> bool:
        """Return whether a checkpoint is due, or would be with `factor` times the limits and the
        pause."""
        if self._since is None:
            return False
        rested = now - self._durable_time >= factor * self._pause
        if self.seconds >= factor * self.limit and rested:
            return True
        if self.retention is not None:
            age = now - self._since
            if age >= factor * _RETENTION_SHARE * self.retention:
                return True
        return self.longest is not None and now - self._last_time >= factor * self.longest
