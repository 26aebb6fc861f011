"""Base class of the factorizations: residuals, predictions, vectors and biases from `learn_many`.

    predicted = within(mean + b_u + b_i + p_u . q_i, 1, 5)

A batch in which nothing is learned reads the model and leaves the state untouched.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.factorization.kalman_update import MEAN, MEAN_VARIANCE
from stream_app.models.factorization.channels import NO_CHANNEL, Channels
from stream_app.models.factorization.learner import Entities, Keys, LearnerSpec, UpdateResult
from stream_app.models.paged_arrays import DirtyMap, mark_dirty
from stream_app.models.seeds import ITEMS, USERS, derive_seed

MAX_FACTORS = 256
USER, ITEM = 0, 1  # places in `_seeds`


class Factorization(ABC):
    """A learner without its tables: a subclass stores vectors and scalars in its own layout."""

    def __init__(self, channels: Channels, spec: LearnerSpec) -> None:
        if not 1 <= spec.factors <= MAX_FACTORS:
            raise ValueError(f"factors {spec.factors}: must be 1 .. {MAX_FACTORS}")
        self.factors = spec.factors
        self._tables = channels.tables
        self._protects = bool(channels.presence.any())
        self._constants = spec.parameters.constants
        self._overall = np.array([3.0, spec.parameters.mean_variance])
        self._seeds = np.array([derive_seed(spec.seed, side) for side in (USERS, ITEMS)], np.uint64)

    @abstractmethod
    def learn_many(
        self,
        users: Keys,
        items: Keys,
        reports: NDArray[np.uint8],
        channels: NDArray[np.uint16],
        learn: NDArray[np.bool_],
        priors: NDArray[np.floating] | None = None,
    ) -> UpdateResult:
        """Predict, decode and learn each rating in order; see `Learner`."""

    def residuals(
        self,
        users: Keys,
        items: Keys,
        reports: NDArray[np.uint8],
        channels: NDArray[np.uint16],
        priors: NDArray[np.floating] | None = None,
    ) -> NDArray[np.float64]:
        """Return the decoded errors under the current model."""
        nothing = np.zeros(len(users), np.bool_)
        return self.learn_many(users, items, reports, channels, nothing, priors).error

    def start_mean(self, mean: float, variance: float) -> None:
        """Take an estimate of the mean rating, on 1 .. 5, where it is surer than the own one."""
        if variance < self._overall[MEAN_VARIANCE]:
            mark_dirty(self.dirty_pages()["overall"], 0, self._overall.nbytes)
            self._overall[:] = mean, variance

    @abstractmethod
    def dirty_pages(self) -> dict[str, DirtyMap]:
        """Return the dirty-page map of each array; see `DurableLearner`."""

    def predict_many(self, users: Keys, items: Keys) -> NDArray[np.float64]:
        """Return the predicted ratings, within 1 .. 5."""
        zeros = np.zeros(len(users), np.uint8)
        no_channel = np.full(len(users), NO_CHANNEL, np.uint16)
        return self.learn_many(users, items, zeros, no_channel, zeros.view(np.bool_)).predicted

    def users(self, keys: Keys) -> Entities:
        """Return the vectors (n, factors) and biases (n,) of users."""
        return self._entities(keys, USER)

    def items(self, keys: Keys) -> Entities:
        """Return the vectors (n, factors) and biases (n,) of items."""
        return self._entities(keys, ITEM)

    @abstractmethod
    def _entities(self, keys: Keys, side: int) -> Entities:
        """Return vectors and biases of one side: `side` is the place in `_seeds`."""

    @property
    def mean(self) -> float:
        """The learned mean rating, on 1 .. 5."""
        return float(self._overall[MEAN])
