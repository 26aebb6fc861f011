"""The contract of online learners: predict, then learn, one rating after the other.

    Learner          predicts and learns: enough to be evaluated
    DurableLearner   also keeps its state in paged arrays and can forget a user: for workers

Every learner: the state after n ratings depends on these ratings in their order and on the seed
alone, not on how they were cut into batches or on the machine; nothing random, no clock.
Predictions are on the internal scale 1 .. 5 (`channels.py`) and of one form,

    predicted = within(mean + b_u + b_i + p_u . q_i, 1, 5)

which an index over items relies on. `factory.py` lists the learners by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.hyperparameters import Parameters
from stream_app.models.paged_arrays import Arrays, DirtyMap

Keys = NDArray[np.uint64]
Entities = tuple[NDArray[np.float32], NDArray[np.float32]]


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


class Learner(Protocol):
    """An online recommender of ratings."""

    name: str
    factors: int

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

    def start_mean(self, mean: float, variance: float) -> None:
        """Take an estimate of the mean rating, on 1 .. 5, where it is surer than the own one."""

    def predict_many(self, users: Keys, items: Keys) -> NDArray[np.float64]:
        """Return the predicted ratings, within 1 .. 5."""

    def residuals(
        self,
        users: Keys,
        items: Keys,
        reports: NDArray[np.uint8],
        channels: NDArray[np.uint16],
        priors: NDArray[np.floating] | None = None,
    ) -> NDArray[np.float64]:
        """Return the decoded errors under the current model; the state is untouched."""

    def users(self, keys: Keys) -> Entities:
        """Return the vectors (n, factors) and biases (n,) of users, initial where unknown."""

    def items(self, keys: Keys) -> Entities:
        """Return the vectors (n, factors) and biases (n,) of items."""

    @property
    def mean(self) -> float:
        """The learned mean rating, on 1 .. 5."""


@runtime_checkable
class DurableLearner(Learner, Protocol):
    """A learner whose state is checkpointed page by page, and from which a user can be erased."""

    @property
    def growing(self) -> frozenset[str]:
        """The names of the arrays whose first dimension grows."""

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return all that decides future predictions, equal in every byte for equal histories."""

    def dirty_pages(self) -> dict[str, DirtyMap]:
        """Return the dirty-page map of each array (`paged_arrays.py`)."""

    def load(self, arrays: Arrays) -> None:
        """Replace the state by what `arrays()` returned; raises ValueError where it does not
        fit."""

    def resize(self, rows: Mapping[str, int]) -> None:
        """Give each growing array so many rows, to be filled in place (`paged_arrays.py`)."""

    def index(self) -> None:
        """Derive everything else from arrays that were filled in place (`paged_arrays.py`)."""

    def follow(self, channels: Channels, parameters: Parameters) -> None:
        """Decode by these channels, the first of which are the former ones, and learn by these
        parameters from now on; the state is untouched."""

    def forget(self, user: np.uint64) -> None:
        """Clear the user's own data, so that the user is treated as unknown.

        The influence of the user's ratings on items, the mean and shared cells remains.
        """

    @property
    def slots(self) -> dict[str, int]:
        """Entities that each table holds before they share slots; empty for a growing table."""

    @property
    def memory_bytes(self) -> int:
        """Memory held by the state."""
