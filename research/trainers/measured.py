"""Accuracy of a trainer: given true ratings, it releases a model with a guarantee of its own.

The trainers and what each promises: `research/trainers/`. The noise comes from a seed,
so that a figure can be repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from murmurec.learner_evaluation import DEFAULT_EPSILON, sizes_of
from murmurec.ratings import item_keys, user_keys
from producers.datasets.load import Dataset
from research.co_rated import CO_RATED
from research.trainers import (
    TRAINERS,
    Trainer,
    TrainerSpec,
    build_trainer,
    evaluate_trainer,
    learned_events,
)
from stream_app.evaluation import EvaluationData, EvaluationResult, TrueRatings
from stream_app.models.baselines.learners import LEARNERS
from stream_app.privacy.randomness import SeededSource

_SCALARS_BYTES = 128  # an entity: slots are cheap, and entities that share one are predicted alike


@dataclass(frozen=True)
class TrainerOptions:
    """Name and sizes of a trainer; epsilon: of one rating event, None to train without noise."""

    model: str
    epsilon: Fraction | None = DEFAULT_EPSILON
    factors: int = 32
    depth: int = 4
    seed: int = 0


def is_trainer(model: str) -> bool:
    """Return whether the name is that of a trainer, rather than of a learner; ValueError where it
    is neither."""
    if model not in (known := (*LEARNERS, *CO_RATED, *TRAINERS)):
        raise ValueError(f"model {model[:40]!r}: choose one of {', '.join(known)}")
    return model in TRAINERS


class TrainerEvaluation:
    """Ratings and a new trainer of the size that they need.

    The constructor raises ValueError for an argument out of range, `measure` for ratings that are
    too few.
    """

    def __init__(self, data: Dataset, options: TrainerOptions) -> None:
        users, items = user_keys(data.users), item_keys(data.items)
        entities = len(np.unique(users)) + len(np.unique(items))
        values = data.scale.values
        truth = TrueRatings(data.ratings, float(values[0]), float(values[-1]))
        self._data, self._seed = EvaluationData(users, items, truth), options.seed
        sizes = sizes_of(entities, options.factors, options.depth, options.seed)
        sizes = replace(sizes, scalars_bytes=_SCALARS_BYTES * entities)
        self.events = learned_events(len(users))
        spec = TrainerSpec(sizes, self.events, options.epsilon)
        self._trainer: Trainer = build_trainer(options.model, spec, SeededSource(options.seed))

    def measure(self) -> EvaluationResult:
        """Train on a random part of the ratings and return the errors on another; call it once."""
        return evaluate_trainer(self._data, self._trainer, seed=self._seed)
