"""Prequential quality of the lists of one method, by the rank of what a user likes next.

gain     1 / log2(rank + 1), 0 beyond rank k; its mean is nDCG@k of one item
memory   weights (1 - 1 / MEMORY)^age, as for the methods that are compared online
"""

from __future__ import annotations

from math import log2, nan

from stream_app.ranking.online_choice import MEMORY


class Measured:
    """Means over the lists that were observed; NaN before the first."""

    def __init__(self, k: int = 10, memory: float = MEMORY) -> None:
        self.k, self.events = k, 0.0
        self._keep = 1 - 1 / memory
        self._gains = self._hits = 0.0

    def observe(self, rank: int) -> None:
        """Count a list in which the item that came next has this rank, from 1."""
        hit = rank <= self.k
        self.events = self._keep * self.events + 1
        self._hits = self._keep * self._hits + hit
        self._gains = self._keep * self._gains + (1 / log2(rank + 1) if hit else 0.0)

    @property
    def ndcg(self) -> float:
        """Mean nDCG@k."""
        return self._gains / self.events if self.events else nan

    @property
    def hit_rate(self) -> float:
        """Share of lists with the item among the first k."""
        return self._hits / self.events if self.events else nan
