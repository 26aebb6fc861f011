"""Which ranking serves: each is scored on what users rate next, before it is learned.

    gain    1 / log2(rank + 1) of the item that came, 0 beyond rank k          nDCG@k of one item;
            of noised messages sum y / log2(rank + 1) over the list, y debiased, and nDCG is the
            mean gain over that of a perfect list of as many items as are liked on average
    memory  weights (1 - 1 / MEMORY)^age, so that the choice follows a stream that changes
    best    the method of the start, until the mean gain of another is above its by more than MARGIN
            standard errors of their difference
    start   popular without an item side; with one the blend by its default weights, which was above
            popularity on every data set that was measured
    blend   softmax regression over the standardised components, one AdaGrad step an event
            (Duchi, Hazan, Singer 2011, figure 1)

Deterministic: no randomness, no clock; what is observed, and in which order, decides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.ranking.item_side import ItemSide
from stream_app.ranking.scores import Components, Weights, standardised

METHODS = ("popular", "factors", "ease", "low_rank", "blend")
MEMORY = 5_000.0  # events
MARGIN = 3.0
LEAST_EVENTS = 50.0
STEP = 0.1
_BLEND, _DEFAULT = METHODS.index("blend"), len(METHODS)  # by fitted, by default weights
_LISTS = len(METHODS) + 1


class OnlineChoice:
    """Measured quality of every method, the weights of the blend, and which method serves.

    `start` is the method that serves until another is measured as better.
    """

    def __init__(self, k: int = 10, memory: float = MEMORY, weights: Weights | None = None) -> None:
        if k < 1 or not memory > 1:
            raise ValueError(f"k {k} must be at least 1 and memory {memory} above 1")
        self.k = k
        self.memory = memory
        self.start = METHODS[0]
        self._default = np.array(weights or Weights(), np.float64)
        self._theta = self._default.copy()
        self._steps = np.full(len(self._theta), 1.0)
        self._events = 0.0
        self._squared = 0.0  # sum of squared weights of events
        self._relevant = 0.0
        self._gains = np.zeros(_LISTS)
        self._hits = np.zeros(_LISTS)
        self._ahead = np.zeros(_LISTS)  # gain minus that of popular
        self._ahead_squared = np.zeros(_LISTS)

    def observe(
        self, target: int, components: Components, allowed: NDArray[np.bool_] | None = None
    ) -> None:
        """Score every method on `target`, the slot that the user liked next, among the `allowed`
        (n,); then learn the blend from it. A target that is not allowed is passed over."""
        if allowed is None:
            allowed = np.ones(len(components.popular), bool)
        if not allowed[target]:
            return
        table = np.stack(standardised(components), axis=1).astype(np.float64)[allowed]
        place = int(np.count_nonzero(allowed[:target]))
        ranks = np.array([rank(scores, place) for scores in self._lists(table)])
        hits = ranks <= self.k
        self._count(hits / np.log2(ranks + 1), hits, 1.0)
        self._learn(np.eye(1, len(table), place)[0], table)

    def observe_values(
        self, values: NDArray[np.float64], components: Components, allowed: NDArray[np.bool_]
    ) -> None:
        """As `observe`, with unbiased values (n,) of all `allowed` items in place of one that was
        liked: 1 on average where an item is, 0 where it is not. Hits cannot be counted then."""
        table = np.stack(standardised(components), axis=1).astype(np.float64)[allowed]
        found = np.asarray(values, np.float64)[allowed]
        discounts = 1 / np.log2(np.arange(min(self.k, len(found))) + 2)
        tops = [np.argsort(-scores, kind="stable")[: self.k] for scores in self._lists(table)]
        gains = np.array([float((found[top] * discounts).sum()) for top in tops])
        self._count(gains, np.full(_LISTS, np.nan), float(found.sum()))
        self._learn(found, table)

    def _lists(self, table: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        popular, ease, low_rank, _, stars = table.T
        return popular, stars, ease, low_rank, table @ self._theta, table @ self._default

    def _count(self, gains: NDArray[np.float64], hits: NDArray[Any], relevant: float) -> None:
        keep = 1 - 1 / self.memory
        ahead = gains - gains[0]
        self._relevant = keep * self._relevant + relevant
        self._events = keep * self._events + 1
        self._squared = keep * keep * self._squared + 1
        self._gains = keep * self._gains + gains
        self._hits = keep * self._hits + hits
        self._ahead = keep * self._ahead + ahead
        self._ahead_squared = keep * self._ahead_squared + ahead**2

    def _learn(self, values: NDArray[np.float64], table: NDArray[np.float64]) -> None:
        scores = table @ self._theta
        chance = np.exp(scores - scores.max())
        chance /= chance.sum()
        gradient = values.sum() * (chance @ table) - values @ table
        self._steps += gradient**2
        self._theta -= STEP * gradient / np.sqrt(self._steps)

    @property
    def weights(self) -> Weights:
        """The weights of the blend: the fitted ones where they were measured as better than the
        default ones."""
        used = self._theta if self._fitted else self._default
        return Weights(*(float(weight) for weight in used))

    @property
    def _fitted(self) -> bool:
        return self._events >= LEAST_EVENTS and bool(self._gains[_BLEND] > self._gains[_DEFAULT])

    @property
    def best(self) -> str:
        """The method that serves."""
        if self._events < LEAST_EVENTS:
            return self.start
        first = self._row(self.start)
        mean = self._ahead / self._events
        spread = np.maximum(self._ahead_squared / self._events - mean**2, 0)
        error = np.sqrt(spread * self._squared) / self._events
        ahead = mean - mean[first]
        sure = np.where(ahead > MARGIN * np.hypot(error, error[first]), ahead, 0)
        methods = [sure[self._row(method)] for method in METHODS]
        return METHODS[int(np.argmax(methods))] if any(methods) else self.start

    @property
    def events(self) -> float:
        """Events that count, after forgetting."""
        return self._events

    def ndcg(self, method: str) -> float:
        """Return the prequential nDCG@k of `method`; NaN before the first event."""
        mean = self._relevant / self._events if self._events else 0.0
        best = ideal(mean, self.k)
        return self._measured(self._gains, method) / best if best > 0 else float("nan")

    def hit_rate(self, method: str) -> float:
        """Return the prequential hit rate@k of `method`; NaN before the first event."""
        return self._measured(self._hits, method)

    def _row(self, method: str) -> int:
        if method == METHODS[_BLEND] and not self._fitted:
            return _DEFAULT
        return METHODS.index(method)

    def _measured(self, sums: NDArray[np.float64], method: str) -> float:
        value = float(sums[self._row(method)])
        return value / self._events if self._events else float("nan")


def start_of(side: ItemSide | None) -> str:
    """Return the method that serves before anything is measured: popular without links, which
    reports that are nearly all noise do not give."""
    return METHODS[_BLEND if side is not None and side.link_targets.shape[1] else 0]


def ideal(relevant: float, k: int) -> float:
    """Return the gain of a perfect list with `relevant` items, which need not be a whole number."""
    whole = np.clip(relevant - np.arange(k), 0, 1)
    return float((whole / np.log2(np.arange(k) + 2)).sum())


def rank(scores: NDArray[np.float64], place: int) -> int:
    """Return the rank (from 1) of the entry at `place`; equal scores rank by place."""
    above = np.count_nonzero(scores > scores[place])
    return int(above + np.count_nonzero(scores[:place] == scores[place]) + 1)
