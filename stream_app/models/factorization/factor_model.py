"""Base classes of the learners: residuals, predictions, vectors and biases from `_learn_batch`.

    predicted = within(mean + b_u + b_i + p_u . q_i, 1, 5)

    BatchLearner     batches whose columns are checked, whatever learns from them
    Factorization    a learner with kernels, without its tables

A batch in which nothing is learned reads the model and leaves the state untouched.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.factorization.kalman_update import MEAN, MEAN_VARIANCE
from stream_app.models.factorization.batch_columns import BatchColumns, batch_columns
from stream_app.models.factorization.channels import NO_CHANNEL, Channels
from stream_app.models.factorization.hyperparameters import Parameters
from stream_app.models.factorization.learner import Entities, Keys, LearnerSpec, UpdateResult
from stream_app.models.paged_arrays import DirtyMap, mark_dirty
from stream_app.models.seeds import ITEMS, USERS, derive_seed

MAX_FACTORS = 256
USER, ITEM = 0, 1  # places in `_seeds`


class BatchLearner(ABC):
    """A learner without its state: a subclass learns from a batch, and holds `_overall`."""

    _overall: NDArray[np.float64]

    def __init__(self, channels: Channels, spec: LearnerSpec) -> None:
        self.factors = spec.factors
        self._decode_by(channels)

    def _decode_by(self, channels: Channels) -> None:
        self._tables = channels.tables
        self._protects = bool(channels.presence.any())

    @abstractmethod
    def follow(self, channels: Channels, parameters: Parameters) -> None:
        """Decode by these channels, the first of which are the former ones, and learn by these
        parameters from now on; the state is untouched."""

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
        columns = users, items, reports, channels, learn
        batch = batch_columns(*columns, priors=priors, protects=self._protects)
        update = UpdateResult.empty(len(users))
        self._learn_batch(batch, update)
        return update

    @abstractmethod
    def _learn_batch(self, batch: BatchColumns, update: UpdateResult) -> None:
        """Predict, decode and learn each rating of a batch in order, and fill `update`."""

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

    def predict_many(self, users: Keys, items: Keys) -> NDArray[np.float64]:
        """Return the predicted ratings, within 1 .. 5."""
        zeros = np.zeros(len(users), np.uint8)
        no_channel = np.full(len(users), NO_CHANNEL, np.uint16)
        return self.learn_many(users, items, zeros, no_channel, zeros.view(np.bool_)).predicted

    @property
    def mean(self) -> float:
        """The learned mean rating, on 1 .. 5."""
        return float(self._overall[MEAN])


class Factorization(BatchLearner):
    """A learner without its tables: a subclass stores vectors and scalars in its own layout."""

    def __init__(self, channels: Channels, spec: LearnerSpec) -> None:
        if not 1 <= spec.factors <= MAX_FACTORS:
            raise ValueError(f"factors {spec.factors}: must be 1 .. {MAX_FACTORS}")
        super().__init__(channels, spec)
        self._constants = spec.parameters.constants
        self._overall = np.array([3.0, spec.parameters.mean_variance])
        self._seeds = np.array([derive_seed(spec.seed, side) for side in (USERS, ITEMS)], np.uint64)

    def follow(self, channels: Channels, parameters: Parameters) -> None:
        """Take up other channels and parameters; see `BatchLearner.follow`."""
        self._decode_by(channels)
        self._constants = parameters.constants

    def start_mean(self, mean: float, variance: float) -> None:
        """Take an estimate of the mean rating, on 1 .. 5, where it is surer than the own one."""
        if variance < self._overall[MEAN_VARIANCE]:
            mark_dirty(self.dirty_pages()["overall"], 0, self._overall.nbytes)
            self._overall[:] = mean, variance

    @abstractmethod
    def dirty_pages(self) -> dict[str, DirtyMap]:
        """Return the dirty-page map of each array; see `DurableLearner`."""

    def users(self, keys: Keys) -> Entities:
        """Return the vectors (n, factors) and biases (n,) of users."""
        return self._entities(keys, USER)

    def items(self, keys: Keys) -> Entities:
        """Return the vectors (n, factors) and biases (n,) of items."""
        return self._entities(keys, ITEM)

    @abstractmethod
    def _entities(self, keys: Keys, side: int) -> Entities:
        """Return vectors and biases of one side: `side` is the place in `_seeds`."""
