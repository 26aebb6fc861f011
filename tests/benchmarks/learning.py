"""Ratings learned per CPU second: MovieLens-1M in random order, d = 32, k = 4, one thread.

The best of several passes over fresh learners in batches of 65,536; the naive ratio compares the
blocked kernel with the obvious Python version on the same ratings in the same run.
"""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np

from stream_app.models.baselines.learners import build
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.hyperparameters import Parameters
from stream_app.models.factorization.learner import LearnerSpec
from stream_app.privacy.ratings.identity import Identity
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from tests.benchmarks.figure import Figure
from tests.fixtures.movielens import SCALARS_BYTES, SKETCH_BYTES, Ratings, load, skipped
from tests.naive import learning as naive

_BATCH, _PASSES, _NAIVE_EVENTS = 65_536, 6, 400
_TARGETS = {
    ("hybrid", "clean"): ">= 12",
    ("hybrid", "rr:5:2"): ">= 2.5",
    ("literal", "clean"): ">= 1.5",
    ("sketch", "clean"): ">= 12",
    ("sketch", "rr:5:2"): ">= 2.5",
}


def measure() -> list[Figure]:
    """Return learned ratings per CPU second for every layout, clean and decoded."""
    ratings = load()
    if ratings is None:
        return skipped("ratings learned per second")
    ratings = ratings.shuffled()
    figures = []
    for model in ("hybrid", "sketch", "literal", "hashing", "dense"):
        for name, mechanism in (("clean", None), ("rr:5:2", RandomizedResponse(5, Fraction(2)))):
            speed = _speed(model, mechanism, ratings)
            target = _TARGETS.get((model, name), "")
            figures.append(Figure(f"learn {model}, {name}", speed / 1e6, "M ratings/s", target))
    (sketch,) = (f.value for f in figures if f.name == "learn sketch, clean")
    ratio = sketch * 1e6 / _naive_speed(ratings)
    return [*figures, Figure("learn sketch, clean, against naive Python", ratio, "x", ">= 1000")]


def _speed(model: str, mechanism: RandomizedResponse | None, ratings: Ratings) -> float:
    channels, reports = (
        Channels.from_mechanisms([mechanism or Identity(5)]),
        ratings.reports(mechanism),
    )
    zeros, ones = np.zeros(_BATCH, np.uint16), np.ones(_BATCH, np.bool_)
    best = 0.0
    for _ in range(_PASSES):
        learner = build(
            model,
            channels,
            LearnerSpec(sketch_bytes=SKETCH_BYTES, scalars_bytes=SCALARS_BYTES, seed=1),
        )
        learner.predict_many(ratings.users[:1], ratings.items[:1])  # compiles
        began = time.process_time()
        for first in range(0, len(ratings), _BATCH):
            part = slice(first, first + _BATCH)
            size = len(reports[part])
            learner.learn_many(
                ratings.users[part], ratings.items[part], reports[part], zeros[:size], ones[:size]
            )
        best = max(best, len(ratings) / (time.process_time() - began))
    return best


def _naive_speed(ratings: Ratings) -> float:
    parameters, clean = Parameters(), np.eye(5)
    sketch = naive.Blocked(32, 4, SKETCH_BYTES // 16, 1, parameters)
    learner = naive.Learner(sketch, naive.HashedScalars(SCALARS_BYTES // 16), parameters)
    columns = (c[:_NAIVE_EVENTS].tolist() for c in (ratings.users, ratings.items, ratings.levels))
    began = time.process_time()
    for user, item, level in zip(*columns, strict=True):
        learner.learn(user, item, level, clean, exact=True)
    return _NAIVE_EVENTS / (time.process_time() - began)
