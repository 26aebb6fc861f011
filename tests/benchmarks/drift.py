"""Drift: 30 % of the items of a generated world lose 1.5 stars half-way (`fixtures/drift.py`).

The error is the RMSE of predictions made for a shifted item after 500 later ratings of it, against
the true ratings, whose own noise and rounding come to .64. Beside it the error right after the
shift, and that of the undisturbed first half.
"""

from __future__ import annotations

import numpy as np

from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.factory import build
from stream_app.models.factorization.learner import LearnerSpec
from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource
from tests.benchmarks.figure import Figure
from tests.fixtures.drift import DriftWorld, drift_world

_AFTER, _WINDOW = 500, 50
_ROWS = (("clean", "none:5:inf", "<= 0.72"), ("rr:5:2", "rr:5:2", "<= 0.8"))


def measure() -> list[Figure]:
    """Return the errors of the default learner around the shift."""
    world = drift_world(3)
    figures = []
    for label, name, target in _ROWS:
        errors = _errors(world, name)
        half = len(errors) // 2
        parts = (
            ("before the shift", slice(half * 9 // 10, half), ""),
            ("right after it", (world.later >= 0) & (world.later < _WINDOW), ""),
            (
                f"after {_AFTER} later ratings",
                (world.later >= _AFTER) & (world.later < _AFTER + _WINDOW),
                target,
            ),
        )
        for part, rows, wanted in parts:
            error = float(np.sqrt(np.mean(errors[rows] ** 2)))
            figures.append(Figure(f"drift, {label}, RMSE {part}", error, "stars", wanted))
    return figures


def _errors(world: DriftWorld, name: str) -> np.ndarray:
    """Return the prequential errors of every rating."""
    mechanism = registry.parse(name)
    learner = build("hybrid", Channels.from_mechanisms([mechanism]), LearnerSpec(seed=1))
    reports, n = mechanism.release(world.levels, SeededSource(1)), len(world.levels)
    columns = world.users, world.items, reports, np.zeros(n, np.uint16), np.ones(n, np.bool_)
    return learner.learn_many(*columns).predicted - (world.levels + 1.0)
