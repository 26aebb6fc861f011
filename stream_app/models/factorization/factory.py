"""Every learner by name: the one table used by command line, settings and contract tests.

    hybrid     fixed memory: rows of an entity's own while they last, shared ones after: the default
    sketch     vectors in one count sketch, one address per (entity, row)
    literal    vectors in one count sketch, one address per (entity, row, component): the thesis
               (Balu 2016, chapter 4)
    hashing    the sketch with a single row (feature hashing)
    dense      one row of floats for every entity seen: the baseline with unbounded memory

A new learner is one file (`count_sketch.py` is the shortest) and one row here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.count_sketch import SketchLearner
from stream_app.models.factorization.dense import DenseLearner
from stream_app.models.factorization.hybrid import HybridLearner
from stream_app.models.factorization.learner import Learner, LearnerSpec

LEARNERS: dict[str, Callable[[Channels, LearnerSpec], Learner]] = {
    "hybrid": HybridLearner,
    "sketch": partial(SketchLearner, "sketch"),
    "literal": partial(SketchLearner, "literal"),
    "hashing": partial(SketchLearner, "hashing"),
    "dense": DenseLearner,
}


def check_model(model: str) -> str:
    """Return the name of a learner, or raise ValueError with all names."""
    if model not in LEARNERS:
        raise ValueError(f"model {model!r}: must be one of {', '.join(LEARNERS)}")
    return model


def build(model: str, channels: Channels, spec: LearnerSpec | None = None) -> Learner:
    """Return a fresh learner; raises ValueError for an unknown name or unusable sizes."""
    return LEARNERS[check_model(model)](channels, spec or LearnerSpec())


def build_durable(model: str, channels: Channels, spec: LearnerSpec | None = None) -> Learner:
    """Return a fresh learner for a worker; raises ValueError for one that cannot forget a user."""
    learner = build(model, channels, spec)
    if not learner.durable:
        raise ValueError(
            f"model {model!r}: it cannot forget a user, which a worker must be able to do; "
            "it can be evaluated only"
        )
    return learner
