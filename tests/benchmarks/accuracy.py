"""How well one online pass predicts MovieLens-1M: RMSE against the true ratings, d = 32, gamma = 1.

One-pass figures: a random 80/10/10 split, the last part tested, the mean of three splits (which
differ by about .002). The hyperparameters are the product's own, one set for all; they were chosen
on the validation part of another split.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from stream_app.evaluation import Truth, evaluate
from stream_app.models.channels import Channels
from stream_app.models.learner import build
from stream_app.privacy.identity import Identity
from stream_app.privacy.randomized_response import RandomizedResponse
from tests.benchmarks.figure import Figure
from tests.movielens import SCALARS_BYTES, SKETCH_BYTES, Ratings, load, skipped

_SEEDS = (11, 12, 13)
_ROWS = (  # model, epsilon, protocol, target
    ("dense", None, "one-pass", "<= 0.875"),
    ("sketch", None, "one-pass", "<= 0.890"),
    ("literal", None, "one-pass", "<= 0.890"),
    ("hashing", None, "one-pass", ""),
    ("dense", None, "prequential", "<= 0.890"),
    ("sketch", None, "prequential", ""),
    ("dense", 4, "one-pass", ""),
    ("dense", 2, "one-pass", "<= 0.920"),
    ("dense", 1, "one-pass", "<= 0.962"),
    ("sketch", 2, "one-pass", ""),
    ("sketch", 1, "one-pass", ""),
)


def measure() -> list[Figure]:
    """Return the RMSE of every row, and that of reports read naively as ratings."""
    ratings = load()
    if ratings is None:
        return skipped("RMSE on MovieLens-1M")
    figures = []
    for model, epsilon, protocol, target in _ROWS:
        mechanism = RandomizedResponse(5, Fraction(epsilon)) if epsilon else None
        rmse = _rmse(ratings, model, mechanism, protocol)
        name = f"RMSE {protocol}, {model}, {mechanism.id if mechanism else 'clean'}"
        figures.append(Figure(name, rmse, "stars", target))
    for epsilon in (2, 1):
        mechanism = RandomizedResponse(5, Fraction(epsilon))
        rmse = _rmse(ratings, "dense", mechanism, "one-pass", naive=True)
        name = f"RMSE one-pass, dense, {mechanism.id} taken as the rating"
        figures.append(Figure(name, rmse, "stars"))
    return figures


def _rmse(
    ratings: Ratings,
    model: str,
    mechanism: RandomizedResponse | None,
    protocol: str,
    *,
    naive: bool = False,
) -> float:
    reader = Identity(5) if naive or mechanism is None else mechanism
    found = [
        evaluate(
            ratings.users,
            ratings.items,
            ratings.reports(mechanism),
            Truth(ratings.levels + 1.0, 1, 5),
            build(
                model,
                Channels.of([reader]),
                sketch_bytes=SKETCH_BYTES,
                scalars_bytes=SCALARS_BYTES,
                seed=seed,
            ),
            protocol=protocol,
            seed=seed,
        ).rmse
        for seed in _SEEDS[: 1 if protocol == "prequential" else None]
    ]
    return float(np.mean(found))
