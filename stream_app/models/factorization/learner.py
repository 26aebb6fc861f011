"""The contract of online learners: predict, then learn, one rating after the other.

Every learner: the state after n ratings depends on these ratings in their order and on the seed
alone, not on how they were cut into batches or on the machine; nothing random, no clock.
Predictions are on the internal scale 1 .. 5 (`channels.py`) and of one form,

    predicted = within(mean + b_u + b_i + p_u . q_i, 1, 5)

which an index over items relies on. A batch in which nothing is learned reads the model and leaves
the state untouched. `factory.py` lists the learners by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.kernels.factorization.kalman_update import MEAN, MEAN_VARIANCE
from stream_app.models.factorization.channels import NO_CHANNEL, Channels
from stream_app.models.factorization.hyperparameters import Parameters
from stream_app.models.paged_arrays import Arrays, DirtyMap, mark_dirty
from stream_app.models.seeds import ITEMS, USERS, derive_seed

Keys = NDArray[np.uint64]
Entities = tuple[NDArray[np.float32], NDArray[np.float32]]
MAX_FACTORS = 256
USER, ITEM = 0, 1  # places in `_seeds`
_TYPES = (np.uint64, np.uint64, np.uint8, np.uint16, np.bool_, np.float32)


@dataclass(frozen=True)
class LearnerSpec:
    """The sizes and constants of a learner; each learner uses those that apply to it.

    factors: length d of a vector. depth: rows k of a sketch. sketch_bytes, scalars_bytes: memory of
    the vectors and of the biases where it is fixed. seed: of every hash, 0 .. 2^64 - 1.
    """

    factors: int = 32
    depth: int = 4
    sketch_bytes: int = 1 << 24
    scalars_bytes: int = 1 << 20
    parameters: Parameters = field(default_factory=Parameters)
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**64:
            raise ValueError(f"seed {self.seed}: must be 0 .. 2^64-1")


class BatchColumns(NamedTuple):
    """One event a row, (m,) each; `priors` may be empty where no channel protects presence."""

    users: NDArray[np.uint64]
    items: NDArray[np.uint64]
    reports: NDArray[np.uint8]
    channels: NDArray[np.uint16]
    learn: NDArray[np.bool_]
    priors: NDArray[np.float32]


class UpdateResult(NamedTuple):
    """Result of `learn_many` for each event of a batch: (m,) each."""

    predicted: NDArray[np.float64]  # before learning, within 1 .. 5
    error: NDArray[np.float64]  # decoded: E[rating | report, prediction] - prediction
    clipped: NDArray[np.bool_]  # refused: e^2 above `clip`, or a report outside its alphabet
    probability: NDArray[np.float64]  # P(report | prediction, channel, prior); NaN if not decoded

    @classmethod
    def empty(cls, events: int) -> UpdateResult:
        """Return the columns that a kernel fills."""
        predicted, error = np.empty(events), np.empty(events)
        return cls(predicted, error, np.empty(events, np.bool_), np.full(events, np.nan))


class Learner(ABC):
    """An online recommender of ratings, without its state: a subclass learns from a batch and holds
    `_overall`."""

    name: str
    _overall: NDArray[np.float64]

    def __init__(self, channels: Channels, spec: LearnerSpec) -> None:
        self.factors = spec.factors
        self._decode_by(channels)

    def _decode_by(self, channels: Channels) -> None:
        self._tables = channels.tables
        self._protects = bool(channels.presence.any())

    def learn_many(
        self,
        users: Keys,
        items: Keys,
        reports: NDArray[np.uint8],
        channels: NDArray[np.uint16],
        learn: NDArray[np.bool_],
        priors: NDArray[np.floating] | None = None,
    ) -> UpdateResult:
        """Predict, decode and learn each rating in order; where not `learn`, only predict.

        channels: numbers of `Channels`; a report outside its channel is predicted and refused.
        priors: the probability of each event that there is a rating at all, before its report; read
        where the channel protects presence. None: 1.
        """
        columns = users, items, reports, channels, learn
        batch = _batch_columns(*columns, priors=priors, protects=self._protects)
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
        """Return the decoded errors under the current model; the state is untouched."""
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

    @abstractmethod
    def start_mean(self, mean: float, variance: float) -> None:
        """Take an estimate of the mean rating, on 1 .. 5, where it is surer than the own one."""

    @abstractmethod
    def users(self, keys: Keys) -> Entities:
        """Return the vectors (n, factors) and biases (n,) of users, initial where unknown."""

    @abstractmethod
    def items(self, keys: Keys) -> Entities:
        """Return the vectors (n, factors) and biases (n,) of items."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all that decides future predictions, equal in every byte for equal histories."""

    @property
    @abstractmethod
    def slots(self) -> dict[str, int]:
        """Entities that each table holds before they share slots; empty for a growing table."""

    @property
    @abstractmethod
    def memory_bytes(self) -> int:
        """Memory held by the state."""


class ServedLearner(Learner):
    """A learner of a worker: a part of the state, kept page by page (`paged_arrays.StatePart`),
    that can lose a user."""

    growing: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def follow(self, channels: Channels, parameters: Parameters) -> None:
        """Decode by these channels, the first of which are the former ones, and learn by these
        parameters from now on; the state is untouched."""

    @abstractmethod
    def scalars_of(self, keys: Keys, side: int) -> NDArray[np.float32]:
        """Return bias, and variances of bias and vector as shares (n, 3), of entities of one side;
        NaN where none are known of it alone."""

    @abstractmethod
    def dirty_pages(self) -> dict[str, DirtyMap]:
        """Return the dirty-page map of each array."""

    @abstractmethod
    def load(self, arrays: Arrays) -> None:
        """Replace the state by what `arrays()` returned; see `StatePart`."""

    @abstractmethod
    def resize(self, rows: Mapping[str, int]) -> None:
        """Give each growing array so many rows, to be filled in place."""

    @abstractmethod
    def index(self) -> None:
        """Derive everything else from arrays that were filled in place."""

    @abstractmethod
    def forget(self, user: np.uint64) -> None:
        """Clear the user's own data, so that the user is treated as unknown.

        The influence of the user's ratings on items, the mean and shared cells remains.
        """


class Factorization(Learner):
    """A learner without its tables: a subclass stores vectors and scalars in its own layout."""

    def __init__(self, channels: Channels, spec: LearnerSpec) -> None:
        if not 1 <= spec.factors <= MAX_FACTORS:
            raise ValueError(f"factors {spec.factors}: must be 1 .. {MAX_FACTORS}")
        super().__init__(channels, spec)
        self._constants = spec.parameters.constants
        self._overall = np.array([3.0, spec.parameters.mean_variance])
        self._seeds = np.array([derive_seed(spec.seed, side) for side in (USERS, ITEMS)], np.uint64)

    def start_mean(self, mean: float, variance: float) -> None:
        """Take an estimate of the mean rating, on 1 .. 5, where it is surer than the own one."""
        if variance < self._overall[MEAN_VARIANCE]:
            self.set_mean(np.array([mean, variance]))

    def set_mean(self, overall: NDArray[np.float64]) -> None:
        """Replace the mean rating and its variance (2,)."""
        self._overall[:] = overall

    def users(self, keys: Keys) -> Entities:
        """Return the vectors (n, factors) and biases (n,) of users."""
        return self._entities(keys, USER)

    def items(self, keys: Keys) -> Entities:
        """Return the vectors (n, factors) and biases (n,) of items."""
        return self._entities(keys, ITEM)

    def _entities(self, keys: Keys, side: int) -> Entities:
        keys = keys_of(keys)
        vectors = np.empty((len(keys), self.factors), np.float32)
        biases = np.empty(len(keys), np.float32)
        self._look_up(keys, side, vectors, biases)
        return vectors, biases

    @abstractmethod
    def _look_up(
        self, keys: Keys, side: int, vectors: NDArray[np.float32], biases: NDArray[np.float32]
    ) -> None:
        """Write vectors and biases of one side: `side` is the place in `_seeds`."""


class ServedFactorization(Factorization, ServedLearner):
    """A factorization of a worker."""

    def follow(self, channels: Channels, parameters: Parameters) -> None:
        """Take up other channels and parameters; see `ServedLearner.follow`."""
        self._decode_by(channels)
        self._constants = parameters.constants

    @property
    def overall(self) -> NDArray[np.float64]:
        """The mean rating, on 1 .. 5, and its variance (2,), not a copy."""
        return self._overall

    def set_mean(self, overall: NDArray[np.float64]) -> None:
        """Replace the mean rating and its variance (2,)."""
        mark_dirty(self.dirty_pages()["overall"], 0, self._overall.nbytes)
        super().set_mean(overall)


def _batch_columns(
    *columns: Any, priors: NDArray[np.floating] | None, protects: bool
) -> BatchColumns:
    """Return users, items, reports, channels, learn and priors, copied only where necessary.

    Writeable and contiguous, because a kernel is compiled again for every other kind of array.
    protects: some channel protects presence, so that priors are read; None means 1 each.
    Raises ValueError for unequal lengths.
    """
    events = len(columns[0])
    if priors is None:
        priors = np.ones(events if protects else 0, np.float32)
    elif len(priors) != events:
        raise ValueError(f"{len(priors)} priors for {events} events: give one each")
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise ValueError(f"columns of {sorted(lengths)} rows: a batch has columns of one length")
    kinds = zip((*columns, priors), _TYPES, strict=True)
    return BatchColumns(*(np.require(column, kind, ["C", "W"]) for column, kind in kinds))


def keys_of(given: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return keys as the kernels take them."""
    return np.require(given, np.uint64, ["C", "W"])
