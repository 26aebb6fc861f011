"""What every online learner promises: test, then learn, one rating after the other.

    sketch     vectors in one count sketch, one address per (entity, row): the default
    literal    vectors in one count sketch, one address per (entity, row, component): the thesis
    hashing    the sketch with a single row (feature hashing)
    dense      one row of floats for every entity seen: the baseline with unbounded memory

Every learner: the state after n ratings depends on these ratings in their order and on the seed
alone, not on how they were cut into batches or on the machine; nothing random, no clock.
Predictions are on the internal scale 1 .. 5 (`channels.py`).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.hyperparameters import Parameters
from stream_app.models.paged_arrays import Arrays, DirtyMap

Keys = NDArray[np.uint64]
MODELS = ("sketch", "literal", "hashing", "dense")


class UpdateResult(NamedTuple):
    """What a batch taught: (m,) each."""

    predicted: NDArray[np.float64]  # before learning, within 1 .. 5
    error: NDArray[np.float64]  # decoded: E[rating | report, prediction] - prediction
    clipped: NDArray[np.bool_]  # refused: e^2 above `clip`, or a report outside its alphabet
    probability: NDArray[
        np.float64
    ]  # P(report | prediction, channel, prior); NaN where not decoded

    @classmethod
    def empty(cls, events: int) -> UpdateResult:
        """Return the columns that a kernel fills."""
        predicted, error = np.empty(events), np.empty(events)
        return cls(predicted, error, np.empty(events, np.bool_), np.full(events, np.nan))


class Learner(Protocol):
    """An online recommender of ratings."""

    name: str
    factors: int
    growing: frozenset[str]

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
        priors: the probability of each that there is a rating at all, before its report; looked at
        where the channel protects presence. None: 1.
        """

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

    def users(self, keys: Keys) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the vectors (n, factors) and biases (n,) of users, initial where unknown."""

    def items(self, keys: Keys) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the vectors (n, factors) and biases (n,) of items."""

    @property
    def mean(self) -> float:
        """The learned mean rating, on 1 .. 5."""

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return all that decides future predictions, equal in every byte for equal histories."""

    def dirty_pages(self) -> dict[str, DirtyMap]:
        """Return the bitmap of each array (`pages.py`)."""

    def load(self, arrays: Arrays) -> None:
        """Replace the state by what `arrays()` returned; raises ValueError where it does not
        fit."""

    def forget(self, user: np.uint64) -> None:
        """Clear what is the user's own, so that it reads as an unknown one.

        What items, the mean and the cells of others have learned from the user's ratings remains.
        """

    @property
    def slots(self) -> dict[str, int]:
        """How many entities each table holds before they must share; empty for a growing table."""

    @property
    def memory_bytes(self) -> int:
        """Memory held by the state."""


def build(
    model: str,
    channels: Channels,
    *,
    factors: int = 32,
    depth: int = 4,
    sketch_bytes: int = 1 << 24,
    scalars_bytes: int = 1 << 20,
    parameters: Parameters | None = None,
    seed: int = 0,
) -> Learner:
    """Return a fresh learner; `dense` ignores the sketch's sizes, `hashing` its depth."""
    from stream_app.models.factorization.count_sketch import SketchLearner
    from stream_app.models.factorization.dense import DenseLearner

    parameters = parameters or Parameters()
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed {seed}: must be 0 .. 2^64-1")
    if model == "dense":
        return DenseLearner(channels, factors, parameters, seed)
    if model in ("sketch", "literal", "hashing"):
        return SketchLearner(
            model,
            channels,
            factors=factors,
            depth=1 if model == "hashing" else depth,
            sketch_bytes=sketch_bytes,
            scalars_bytes=scalars_bytes,
            parameters=parameters,
            seed=seed,
        )
    raise ValueError(f"model {model!r}: choose one of {', '.join(MODELS)}")
