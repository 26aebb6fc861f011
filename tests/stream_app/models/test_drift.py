"""A learner follows items that change: nothing is so certain that it is never forgotten."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stream_app.models.baselines.learners import build
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.hyperparameters import Parameters
from stream_app.models.factorization.learner import LearnerSpec
from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource
from tests.fixtures.drift import drift_world

WORLD = drift_world(7, users=1000, items=60, ratings=120_000)


def error_after(name: str, parameters: Parameters, after: int = 500) -> float:
    """Return the RMSE for shifted items after so many later ratings of each."""
    mechanism = registry.parse(name)
    spec = LearnerSpec(factors=8, sketch_bytes=1 << 16, seed=1, parameters=parameters)
    learner = build("hybrid", Channels.from_mechanisms([mechanism]), spec)
    reports, n = mechanism.release(WORLD.levels, SeededSource(1)), len(WORLD.levels)
    columns = WORLD.users, WORLD.items, reports, np.zeros(n, np.uint16), np.ones(n, np.bool_)
    errors = learner.learn_many(*columns).predicted - (WORLD.levels + 1.0)
    return float(np.sqrt(np.mean(errors[WORLD.later >= after] ** 2)))


@pytest.mark.parametrize(("name", "most"), [("none:5:inf", 0.72), ("rr:5:2", 0.80)])
def test_a_shift_of_items_is_followed_within_500_ratings(name: str, most: float) -> None:
    assert error_after(name, Parameters()) <= most
    stubborn = replace(Parameters(), item_drift=0.0)
    assert error_after(name, stubborn) > error_after(name, Parameters()) + 0.02
