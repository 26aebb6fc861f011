"""Drift: 30 % of the items of a generated world lose 1.5 stars half-way (`fixtures/drift.py`).

The error is the RMSE of predictions made for a shifted item after 500 later ratings of it, against
the true ratings, whose own noise and rounding come to .64. Beside it the error right after the
shift, and that of the undisturbed first half. Then the detector (`monitoring/drift.py`) on normal
noise: observations for each false call, and those until a rise is found, after 100 without one.
"""

from __future__ import annotations

import numpy as np

from stream_app.models.baselines.learners import build
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import LearnerSpec
from stream_app.monitoring.drift import PageHinkley
from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource
from tests.benchmarks.figure import Figure
from tests.fixtures.drift import DriftWorld, drift_world

_AFTER, _WINDOW = 500, 50
_NOISE, _RUNS, _QUIET = 1_000_000, 300, 100
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
    return figures + _detector()


def _detector() -> list[Figure]:
    random, detector = np.random.default_rng(1), PageHinkley()
    calls = sum(detector.add(value) for value in random.normal(size=_NOISE).tolist())
    rate = _NOISE / max(calls, 1)
    figures = [Figure("drift, detector, false call", rate, "observations", ">= 50000")]
    for rise in (1.0, 2.0, 4.0):
        found = [delay for _ in range(_RUNS) if (delay := _delay(random, rise)) is not None]
        name = f"drift, detector, a rise of {rise:g} deviations"
        figures.append(Figure(f"{name}, found", len(found) / _RUNS, "share", ">= 0.95"))
        figures.append(Figure(f"{name}, after", float(np.mean(found)), "observations"))
    return figures


def _delay(random: np.random.Generator, rise: float) -> int | None:
    """Return after how many observations a rise is found, None where it is not within 1,000."""
    detector = PageHinkley()
    for value in random.normal(size=_QUIET).tolist():
        detector.add(value)
    values = random.normal(rise, size=1_000).tolist()
    return next((at + 1 for at, value in enumerate(values) if detector.add(value)), None)


def _errors(world: DriftWorld, name: str) -> np.ndarray:
    """Return the prequential errors of every rating."""
    mechanism = registry.parse(name)
    learner = build("hybrid", Channels.from_mechanisms([mechanism]), LearnerSpec(seed=1))
    reports, n = mechanism.release(world.levels, SeededSource(1)), len(world.levels)
    columns = world.users, world.items, reports, np.zeros(n, np.uint16), np.ones(n, np.bool_)
    return learner.learn_many(*columns).predicted - (world.levels + 1.0)
