"""A learner written one rating at a time: a subclass defines lookups and the update.

    user(key), item(key)         vector and bias of an entity, the initial ones where unknown
    learn_one(user, item, e)     move the state by one decoded error

The base class implements the rest of the contract: batches, decoding of reports through their
channels, refusals, the overall mean

    mu += e / (n + 10)           over the n ratings learned

and a state in paged arrays of fixed shape, each named once with `keep`. It is a loop in Python,
some 20 us a rating: enough to evaluate an idea on a million ratings. A learner that is served has
kernels, as `stream_app/models/factorization/count_sketch.py` has.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.factorization.kalman_update import MEAN, distance, read_exactly
from stream_app.kernels.factorization.posterior import (
    HIGHEST,
    LOWEST,
    update_posterior,
)
from stream_app.kernels.machine.scalars import hash64
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import (
    BatchColumns,
    Entities,
    Keys,
    Learner,
    LearnerSpec,
    UpdateResult,
)
from stream_app.models.paged_arrays import FixedArrays
from stream_app.models.seeds import derive_seed

_MEAN_PRIOR = 10.0  # ratings that the middle of the scale counts for in the overall mean
_LEARNED = 1  # place of n in the array `overall`

Entity = tuple[NDArray[np.float32], float]


class SimpleLearner(FixedArrays, Learner):
    """The base class; `zero` is a vector of zeros for entities that have none."""

    name: str

    def __init__(self, channels: Channels, spec: LearnerSpec) -> None:
        FixedArrays.__init__(self)
        Learner.__init__(self, channels, spec)
        self.zero = np.zeros(spec.factors, np.float32)
        self.spec = spec
        self._overall = self.keep("overall", np.array([(LOWEST + HIGHEST) / 2, 0.0]))

    @abstractmethod
    def user(self, key: int) -> Entity:
        """Return the vector (factors,) float32 and the bias of a user."""

    @abstractmethod
    def item(self, key: int) -> Entity:
        """Return the vector (factors,) float32 and the bias of an item."""

    @abstractmethod
    def learn_one(self, user: int, item: int, error: float) -> None:
        """Move the state by one rating: `error` is E[rating | report] - prediction, in stars."""

    def slot(self, key: int, use: int, slots: int) -> int:
        """Return the hashed place of a key among `slots`; `use` is one of `seeds.py`."""
        return int(hash64(np.uint64((key + int(derive_seed(self.spec.seed, use))) % 2**64))) % slots

    def _learn_batch(self, batch: BatchColumns, update: UpdateResult) -> None:
        if batch.learn.any():
            self.mark_all_dirty()
        rows = zip(*(column.tolist() for column in batch[:5]), strict=True)
        for n, (user, item, report, channel, wanted) in enumerate(rows):
            rhat = self._estimate(user, item)
            error, probability, refused = self._observe(rhat, report, channel, batch.priors, n)
            update.predicted[n] = min(max(rhat, LOWEST), HIGHEST)
            update.error[n], update.probability[n] = error, probability
            update.clipped[n] = refused
            if wanted and not refused:
                self.learn_one(user, item, error)
                self._overall[_LEARNED] += 1
                self._overall[MEAN] += error / (self._overall[_LEARNED] + _MEAN_PRIOR)

    def _estimate(self, user: int, item: int) -> float:
        """Return mean + b_u + b_i + p_u . q_i, summed exactly: the same on every machine."""
        (p, user_bias), (q, item_bias) = self.user(user), self.item(item)
        products = p.astype(np.float64) * q
        return math.fsum([self.mean, user_bias, item_bias, *products.tolist()])

    def _observe(
        self, rhat: float, report: int, channel: int, priors: NDArray[np.float32], n: int
    ) -> tuple[float, float, bool]:
        """Return the decoded error, the probability of the report, and whether it is refused."""
        likelihood, facts, table = self._tables
        known = channel < len(facts)
        start, alphabet, levels, exact, _ = facts[channel].tolist() if known else (0,) * 5
        if report >= alphabet:
            return 0.0, math.nan, True
        if exact:
            error, probability = read_exactly(rhat, report, distance(levels)), math.nan
        else:
            spread, row = self.spec.parameters.prior_variance, start + report
            error, _, probability = update_posterior(
                rhat, spread, row, likelihood, table, facts, channel, priors, n
            )
        return error, probability, error * error > self.spec.parameters.clip

    def start_mean(self, mean: float, variance: float) -> None:
        """Take an estimate of the mean rating, on 1 .. 5, where it is surer than the own one,
        whose variance is taken as 1 / (n + 10)."""
        if variance < 1 / (self._overall[_LEARNED] + _MEAN_PRIOR):
            self.mark_all_dirty()
            self._overall[MEAN] = mean

    def users(self, keys: Keys) -> Entities:
        """Return the vectors (n, factors) and biases (n,) of users."""
        return self._entities([self.user(key) for key in keys.tolist()])

    def items(self, keys: Keys) -> Entities:
        """Return the vectors (n, factors) and biases (n,) of items."""
        return self._entities([self.item(key) for key in keys.tolist()])

    def _entities(self, entities: list[Entity]) -> Entities:
        vectors = np.array([vector for vector, _ in entities], np.float32)
        biases = np.array([bias for _, bias in entities], np.float32)
        return vectors.reshape(len(entities), self.factors), biases

    @property
    def slots(self) -> dict[str, int]:
        """No table is declared as shared."""
        return {}
