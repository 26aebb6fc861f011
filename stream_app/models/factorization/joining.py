"""Merges what several shards have learned of the same items.

A row of the online learner is a Gaussian belief: an estimate, and a variance as a share of its
first one. Shards that see different ratings change it by factors that multiply, so in natural
parameters their changes add:

    L = 1 / share,   L' = L + sum_s dL_s,   q' = (L q + sum_s d(L q)_s) / L'

for vectors and for biases, each with its own share, and for the overall mean with its variance. For
a fixed other side this is exact (a Bayesian committee machine; Tresp 2000); with one pass of
learning in between it is a step of expectation propagation. Drift widens variances, so that a
change of L may be negative: L' is held at that of a row which nobody has rated.

Factors of shards that have never met point in different directions, and their sum in none: shards
meet often at first (`Meetings`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.exchange.natural_rows import ONE
from stream_app.kernels.factorization.kalman_update import MEAN, MEAN_VARIANCE
from stream_app.kernels.factorization.posterior import HIGHEST, LOWEST
from stream_app.models.factorization.hybrid import HybridLearner
from stream_app.models.factorization.learner import ITEM, Keys
from stream_app.models.paged_arrays import FixedArrays, mark_dirty

Places = NDArray[np.int64]
Beliefs = NDArray[np.float16]
_LEAST_VARIANCE = 1e-10
_MOST = float(np.finfo(np.float16).max)
_CHUNK = 1 << 16  # items at a time
_ROUNDINGS = 3  # of float32, after which less than a unit is left


class SharedRows(FixedArrays):
    """What is merged of all shards about the items of a learner, in units of 2^-24.

    base (rows, 3 + factors) int64: precisions of bias and vector, and moments, by the learner's row
    of its own. overall (2,) int64: precision and moment of the mean rating beyond those of the
    untrained `learner`.
    """

    def __init__(self, learner: HybridLearner) -> None:
        super().__init__()
        shape = learner.rows, 3 + learner.factors
        self._base = self.keep("base", np.zeros(shape, np.int64))
        self._overall = self.keep("overall", np.zeros(2, np.int64))
        self._pages, self._overall_pages = self.maps()
        self._first = _natural_mean(learner.overall)

    def begin_with(self, learner: HybridLearner, keys: Keys) -> None:
        """Make what a learner knows of items (n,) and of the mean rating the base: nothing of it is
        left to publish."""
        for first in range(0, len(keys), _CHUNK):
            some = keys[first : first + _CHUNK]
            for _ in range(_ROUNDINGS):
                _, found = learner.beyond(some, ITEM, self._base)
                sums = np.rint(found.astype(np.float64) * ONE).astype(np.int64)
                self.merge(learner, some, sums, self.mean_difference(learner), foreign=False)

    def difference(self, learner: HybridLearner, keys: Keys) -> tuple[Places, Beliefs]:
        """Return what a learner knows of items beyond the base: places in keys (n,), those with a
        row of their own, and changes (r, 3 + factors) float16. What rounding leaves, or a float16
        cannot hold, is beyond the base again next time."""
        own, found = learner.beyond(keys, ITEM, self._base)
        changes = np.clip(found, -_MOST, _MOST).astype(np.float16)
        places = np.flatnonzero(own & changes.any(axis=1))
        return places, changes[places]

    def mean_difference(self, learner: HybridLearner) -> NDArray[np.float64]:
        """Return what a learner knows of the mean rating beyond the base, (1, 2)."""
        units = (_natural_mean(learner.overall) - self._first) * ONE - self._overall
        beyond: NDArray[np.float64] = units[None] / ONE
        return beyond

    def merge(
        self,
        learner: HybridLearner,
        keys: Keys,
        sums: NDArray[np.int64],
        overall: NDArray[np.float64],
        *,
        foreign: bool,
    ) -> None:
        """Merge changes of distinct items, `sums` in units, and of the mean rating (n, 2); of other
        shards if `foreign`, which the learner then learns."""
        learner.merge(keys, ITEM, sums, (self._base, self._pages), foreign=foreign)
        units = np.rint(overall * ONE).astype(np.int64).sum(axis=0)
        mark_dirty(self._overall_pages, 0, self._overall.nbytes)
        self._overall += units
        if foreign and units.any():
            precision, moment = _natural_mean(learner.overall) + units / ONE
            precision = max(precision, self._first[0])
            mean = min(max(moment / precision, LOWEST), HIGHEST)
            learner.set_mean(np.array([mean, 1.0 / precision]))


def _natural_mean(overall: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return precision and moment of a mean rating and its variance."""
    precision = 1.0 / max(float(overall[MEAN_VARIANCE]), _LEAST_VARIANCE)
    return np.array([precision, precision * overall[MEAN]])


@dataclass(frozen=True)
class Meetings:
    """When shards publish: after `first` ratings of all of them together, then whenever their
    number has grown by `part`, by `late_part` once they are `late`, and after `most` at the latest.

    ML-1M in one pass, `hybrid`, RMSE of the whole stream, changes merged 2,000 ratings after they
    were published (`python -m tests.benchmarks shards`):

        one worker                  .8791 clean    .9347 rr:5:2
        16 shards, by a fortieth    .8801          .9359
        16 shards, by a hundredth   .8800          .9358

    An exchange costs a shard a time that does not grow with the ratings, so late ones are rarer.
    """

    first: int = 500
    part: float = 0.01
    late: int = 2_000_000
    late_part: float = 1 / 3
    most: int = 5_000_000

    def due(self, unshared: int, ratings: int, shards: int) -> bool:
        """Return whether a shard with so many `unshared` ratings publishes a change, where the
        shards together have merged `ratings`."""
        return unshared > 0 and unshared * shards >= self.after(ratings)

    def after(self, ratings: int) -> int:
        """Return how many ratings after the first `ratings` shards publish again."""
        part = self.part if ratings < self.late else self.late_part
        return int(min(max(self.first, part * ratings), self.most))
