"""What every factorization answers from `learn_many` and its tables: errors, predictions, vectors.

    predicted = within(mean + b_u + b_i + p_u . q_i, 1, 5)

A batch in which nothing is learned reads the model and leaves the state untouched.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app.models.factorization.batch_columns import Columns, columns
from stream_app.models.factorization.channels import NO_CHANNEL, Channels
from stream_app.models.factorization.learner import Keys, UpdateResult
from stream_app.models.seeds import ITEMS, USERS, derive_seed

MAX_FACTORS = 256
Entities = tuple[NDArray[np.float32], NDArray[np.float32]]
USER, ITEM = 0, 1  # places in `_salts`


class Factorization(ABC):
    """A learner without its tables: an heir keeps vectors and scalars its own way."""

    growing: frozenset[str] = frozenset()

    def __init__(self, channels: Channels, factors: int, mean_variance: float, seed: int) -> None:
        if not 1 <= factors <= MAX_FACTORS:
            raise ValueError(f"factors {factors}: must be 1 .. {MAX_FACTORS}")
        self.factors = factors
        self._tables = channels.tables
        self._protects = bool(channels.presence.any())
        self._overall = np.array([3.0, mean_variance])
        self._seeds = np.array([derive_seed(seed, USERS), derive_seed(seed, ITEMS)], np.uint64)

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

    def predict_many(self, users: Keys, items: Keys) -> NDArray[np.float64]:
        """Return the predicted ratings, within 1 .. 5."""
        zeros = np.zeros(len(users), np.uint8)
        nobody = np.full(len(users), NO_CHANNEL, np.uint16)
        return self.learn_many(users, items, zeros, nobody, zeros.view(np.bool_)).predicted

    def users(self, keys: Keys) -> Entities:
        """Return the vectors (n, factors) and biases (n,) of users."""
        return self._entities(keys, USER)

    def items(self, keys: Keys) -> Entities:
        """Return the vectors (n, factors) and biases (n,) of items."""
        return self._entities(keys, ITEM)

    def _columns(self, *given: Any, priors: NDArray[np.floating] | None) -> Columns:
        """Return a batch as the kernels take it; without `priors` every event is a rating."""
        if priors is None:
            priors = np.ones(len(given[0]) if self._protects else 0, np.float32)
        elif len(priors) != len(given[0]):
            raise ValueError(f"{len(priors)} priors for {len(given[0])} events: give one each")
        return columns(*given, priors)

    @abstractmethod
    def _entities(self, keys: Keys, side: int) -> Entities:
        """Return vectors and biases of one side: `side` is the place in `_salts`."""

    @property
    def mean(self) -> float:
        """The learned mean rating, on 1 .. 5."""
        return float(self._overall[0])
