"""Every learner that can be evaluated: those of a worker, and the baselines beside them.

literal    vectors in one count sketch, one address per (entity, row, component): the thesis
           (Balu 2016, chapter 4)
hashing    the sketch with a single row (feature hashing)
dense      one row of floats for every entity seen: the baseline with unbounded memory
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from stream_app.kernels.factorization.factor_lookup import literal_reader
from stream_app.kernels.factorization.training_loops.literal_loop import literal_loop
from stream_app.models.baselines.dense import DenseLearner
from stream_app.models.factorization import factory
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.count_sketch import SketchLearner
from stream_app.models.factorization.learner import Learner, LearnerSpec


class LiteralLearner(SketchLearner):
    """The sketch with every component at an address of its own (`count_sketch_literal.py`)."""

    name = "literal"

    def __init__(self, channels: Channels, spec: LearnerSpec) -> None:
        super().__init__(channels, spec)
        layout = self.factors, self.depth
        self._learn, self._read = literal_loop(*layout), literal_reader(*layout)

    def forget(self, user: np.uint64) -> None:
        """Refuse: where the components of a user lie is not separated from others here."""
        raise NotImplementedError(f"user {user}: the literal layout forgets nobody")


class HashingLearner(SketchLearner):
    """The sketch with a single row."""

    name = "hashing"

    def __init__(self, channels: Channels, spec: LearnerSpec) -> None:
        super().__init__(channels, replace(spec, depth=1))


LEARNERS: dict[str, Callable[[Channels, LearnerSpec], Learner]] = {
    **factory.LEARNERS,
    **{made.name: made for made in (LiteralLearner, HashingLearner, DenseLearner)},
}


def build(model: str, channels: Channels, spec: LearnerSpec | None = None) -> Learner:
    """Return a fresh learner; raises ValueError for an unknown name or unusable sizes."""
    if model not in LEARNERS:
        raise ValueError(f"model {model!r}: must be one of {', '.join(LEARNERS)}")
    return LEARNERS[model](channels, spec or LearnerSpec())
