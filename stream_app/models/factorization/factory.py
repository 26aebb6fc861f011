"""Every learner of a worker by name: the one table used by settings, state and contract tests.

    hybrid     fixed memory: rows of an entity's own while they last, shared ones after: the default
    sketch     vectors in one count sketch, one address per (entity, row)

A new learner is one file (`count_sketch.py` is the shortest) and one row here; one that is only
measured is a row of `models/baselines/learners.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.count_sketch import SketchLearner
from stream_app.models.factorization.hybrid import HybridLearner
from stream_app.models.factorization.learner import LearnerSpec, ServedLearner

LEARNERS: dict[str, Callable[[Channels, LearnerSpec], ServedLearner]] = {
    made.name: made for made in (HybridLearner, SketchLearner)
}


def check_model(model: str) -> str:
    """Return the name of a learner, or raise ValueError with all names."""
    if model not in LEARNERS:
        raise ValueError(f"model {model!r}: workers serve {', '.join(LEARNERS)}")
    return model


def build(model: str, channels: Channels, spec: LearnerSpec | None = None) -> ServedLearner:
    """Return a fresh learner; raises ValueError for an unknown name or unusable sizes."""
    return LEARNERS[check_model(model)](channels, spec or LearnerSpec())
