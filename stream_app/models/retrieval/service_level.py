"""The service level of an index: how long its shortlist must be for the recall that was asked for.

Every so often a query is answered exactly, too. The mean recall of WINDOW such samples decides:

    below the target                               the shortlist is twice as long from now on
    half of the allowed loss or less, for          it is half as long again, never shorter than
    RELAXED windows in a row                       at first

A target of 1 means that every search is exact. One level serves every index of a worker, also one
that replaces another.
"""

from __future__ import annotations

import math

WINDOW, RELAXED = 40, 10
_MOST = 1 << 20


class ServiceLevel:
    """The target, and how many times its first length a shortlist has now (`factor`)."""

    def __init__(self, target: float = 0.99) -> None:
        if not 0 < target <= 1:
            raise ValueError(f"recall {target}: must be above 0 and at most 1 (1: exact search)")
        self.target, self.factor = target, 1
        self._samples: list[float] = []
        self._relaxed = 0

    def copy(self) -> ServiceLevel:
        """Return a level of its own with this target and factor, before its first sample."""
        found = ServiceLevel(self.target)
        found.factor = self.factor
        return found

    @property
    def exact(self) -> bool:
        """Whether only exact search reaches the target."""
        return self.target >= 1

    def observe(self, recall: float) -> bool:
        """Enter the recall of one sampled query (NaN: none); return whether the factor changed."""
        if math.isnan(recall):
            return False
        self._samples.append(recall)
        if len(self._samples) < WINDOW:
            return False
        mean = math.fsum(self._samples) / WINDOW
        self._samples.clear()
        before = self.factor
        if mean < self.target:
            self.factor, self._relaxed = min(2 * self.factor, _MOST), 0
        elif mean >= (1 + self.target) / 2:
            self._relaxed += 1
            if self._relaxed >= RELAXED:
                self.factor, self._relaxed = max(self.factor // 2, 1), 0
        else:
            self._relaxed = 0
        return self.factor != before
