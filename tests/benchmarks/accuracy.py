"""Accuracy of one online pass on MovieLens-1M: RMSE against the true ratings, d = 32, gamma = 1.

One-pass figures: a random 80/10/10 split, the last part tested, the mean of three splits (which
differ by about .002). Scope: every user sends every cell of the 300 most rated items once, and the
ratings of the last part among them are tested. The hyperparameters are the product's own, one set
for all (`hyperparameters.py` states what they were chosen on).
"""

from __future__ import annotations

import numpy as np

from stream_app.evaluation import (
    AdaptiveDevices,
    Devices,
    EvaluationData,
    EvaluationResult,
    FixedReports,
    TrueRatings,
    evaluate,
)
from stream_app.evaluation.scope_errors import ScopeDevices, evaluate_scope
from stream_app.models.baselines.learners import build
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.learner import Learner, LearnerSpec
from stream_app.models.factorization.presence_rates import PresenceRates
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import SeededSource
from tests.benchmarks.figure import Figure
from tests.fixtures.movielens import SCALARS_BYTES, SKETCH_BYTES, Ratings, load, skipped

_SEEDS = (11, 12, 13)
_CLEAN = "none:5:inf"
_ROWS = (  # model, mechanism, protocol, target
    ("dense", _CLEAN, "one-pass", "<= 0.868"),
    ("hybrid", _CLEAN, "one-pass", "<= 0.872"),
    ("sketch", _CLEAN, "one-pass", "<= 0.890"),
    ("literal", _CLEAN, "one-pass", "<= 0.890"),
    ("hashing", _CLEAN, "one-pass", ""),
    ("dense", _CLEAN, "prequential", "<= 0.881"),
    ("hybrid", _CLEAN, "prequential", ""),
    ("sketch", _CLEAN, "prequential", ""),
    ("dense", "rr:5:4", "one-pass", ""),
    ("dense", "rr:5:2", "one-pass", "<= 0.917"),
    ("dense", "rr:5:1", "one-pass", "<= 0.958"),
    ("dense", "rr:5:1/2", "one-pass", "<= 1.02"),
    ("hybrid", "rr:5:2", "one-pass", ""),
    ("hybrid", "rr:5:1", "one-pass", ""),
    ("sketch", "rr:5:2", "one-pass", ""),
    ("sketch", "rr:5:1", "one-pass", ""),
    ("dense", "partition:5:4", "one-pass", "<= 0.880"),
    ("dense", "partition:5:2", "one-pass", "<= 0.913"),
    ("dense", "partition:5:1", "one-pass", "<= 0.940"),
    ("dense", "partition:5:1/2", "one-pass", ""),
    ("dense", "partition:5:4", "one-pass, leaning", ""),
    ("dense", "partition:5:2", "one-pass, leaning", ""),
    ("dense", "partition:5:1", "one-pass, leaning", ""),
    ("sketch", "partition:5:2", "one-pass", ""),
    ("sketch", "partition:5:1", "one-pass", ""),
)
_SCOPE = (  # model, factors, mechanism, target
    ("dense", 32, "cell:5:4", "<= 0.880"),
    ("dense", 32, "cell:5:2", "<= 0.913"),
    ("dense", 32, "cell:5:1", ""),
    ("dense", 8, "cell:5:1", "<= 0.950"),
    ("dense", 1, "cell:5:2", ""),
    ("dense", 1, "cell:5:1", ""),
    ("dense", 1, "cell:5:1/2", ""),
    ("dense", 32, "cell:5:2:1/4", ""),
    ("dense", 32, "ternary:5:4", ""),
    ("dense", 32, "ternary:5:2", ""),
    ("dense", 32, "ternary:5:1", ""),
    ("dense", 32, "laplace:5:4", ""),
    ("dense", 32, "laplace:5:2", ""),
    ("dense", 32, "laplace:5:1", ""),
    ("hybrid", 32, "cell:5:2", ""),
    ("sketch", 32, "cell:5:2", ""),
)


def measure() -> list[Figure]:
    """Return the RMSE of every row, of reports read naively as ratings, and of the item means."""
    ratings = load()
    if ratings is None:
        return skipped("RMSE on MovieLens-1M")
    figures = []
    for model, name, protocol, target in _ROWS:
        seeds = _SEEDS[: 1 if protocol == "prequential" else None]
        found = [_one_pass(ratings, model, name, protocol, seed) for seed in seeds]
        label = "clean" if name == _CLEAN else name
        figures.append(_figure(f"RMSE {protocol}, {model}, {label}", found, target))
    for name in ("rr:5:4", "rr:5:2", "rr:5:1"):
        found = [_one_pass(ratings, "dense", name, "naive", seed) for seed in _SEEDS]
        figures.append(_figure(f"RMSE one-pass, dense, {name} taken as the rating", found))
    for model, factors, name, target in _SCOPE:
        found = [_scope(ratings, model, factors, name, seed) for seed in _SEEDS]
        title = f"RMSE scope of 300, {model}, d = {factors}, {name}"
        figures.append(_figure(title, found, target))
    means = float(np.mean([result.rmse_baseline for result in found]))
    return [*figures, Figure("RMSE scope of 300, the items' true means", means, "stars")]


def _figure(name: str, results: list[EvaluationResult], target: str = "") -> Figure:
    return Figure(name, float(np.mean([result.rmse for result in results])), "stars", target)


def _one_pass(
    ratings: Ratings, model: str, name: str, protocol: str, seed: int
) -> EvaluationResult:
    mechanism = registry.parse(name)
    channels = Channels.from_mechanisms(
        [registry.parse(_CLEAN) if protocol == "naive" else mechanism]
    )
    devices: Devices
    if mechanism.masks:
        columns = channels, ratings.users, ratings.items, ratings.levels, SeededSource(seed)
        devices = AdaptiveDevices(mechanism, *columns, user_bias="leaning" in protocol)
    else:
        devices = FixedReports(ratings.reports(mechanism))
    return evaluate(
        events(ratings),
        devices,
        _learner(model, channels, 32, seed),
        protocol="prequential" if protocol == "prequential" else "one-pass",
        seed=seed,
    )


def events(ratings: Ratings) -> EvaluationData:
    truth = TrueRatings(ratings.levels + 1.0, 1, 5)
    return EvaluationData(ratings.users, ratings.items, truth)


def _scope(ratings: Ratings, model: str, factors: int, name: str, seed: int) -> EvaluationResult:
    mechanism: Mechanism = registry.parse(name)
    channels = Channels.from_mechanisms([mechanism])
    return evaluate_scope(
        events(ratings),
        ScopeDevices(ratings.levels, mechanism, SeededSource(seed)),
        _learner(model, channels, factors, seed),
        PresenceRates(channels, 4 << 20, seed),
        seed=seed,
    )


def _learner(model: str, channels: Channels, factors: int, seed: int) -> Learner:
    return build(
        model,
        channels,
        LearnerSpec(
            factors=factors,
            sketch_bytes=SKETCH_BYTES * factors // 32,
            scalars_bytes=SCALARS_BYTES,
            seed=seed,
        ),
    )
