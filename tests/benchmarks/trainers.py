"""Clipping against clipping and noise: figure 4.7 of Balu 2016, and the trainers beside it.

One pass of the sketch (k = 4, gamma = 1, `literal` layout) that refuses squared errors above a
clip, for the clips that the thesis calls epsilon 2, 4, 8, 16 and inf, and factors 8, 16 and 32: the
RMSE of the last tenth of a random split and the share of ratings that was refused. Where nothing is
refused, clipping is no mechanism. Beside it the trainers with a guarantee of one rating event at
(epsilon, 1e-6), 8 factors, and the share of ratings whose vector they clip: shortened, not refused.
MovieLens-1M; MovieLens-100K where it is the only one there is.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from research.trainers import (
    TRAINERS,
    Events,
    TrainerSpec,
    build_trainer,
    evaluate_trainer,
    learned_events,
)
from research.trainers.cell_model import CellModel
from research.trainers.trainer import BOUND
from stream_app.evaluation import EvaluationData, TrueRatings, split
from stream_app.evaluation.results import rms
from stream_app.models.baselines.learners import build
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.hyperparameters import Parameters
from stream_app.models.factorization.learner import LearnerSpec
from stream_app.privacy import registry
from stream_app.privacy.randomness import SeededSource
from tests.benchmarks.figure import Figure
from tests.fixtures.data_sets import DataSet, load

CLIPS = (2.0, 4.0, 8.0, 16.0, np.inf)
FACTORS = (8, 16, 32)
EPSILONS = ("1/2", "1", "2", "4", "8", "inf")
SEED = 11


def measure() -> list[Figure]:
    """Return the errors and refused shares of every row."""
    for name in ("ml-1m", "ml-100k"):
        if (data := load(name)) is not None:
            return [*clipped(name, data), *trained(name, data)]
    return [Figure("RMSE of trainers: skipped, set MURMUREC_DATA", np.nan, "")]


def clipped(name: str, data: DataSet) -> list[Figure]:
    """Return RMSE and refused share of the clipped sketch."""
    figures = []
    learned, _, tested = split(len(data.users), SEED)
    channels = Channels.from_mechanisms([registry.mechanism("none", data.count, None)])
    for factors in FACTORS:
        for clip in CLIPS:
            sizes = spec(data, factors, Parameters(clip=clip))
            learner = build("literal", channels, sizes)
            rows = data.users[learned], data.items[learned], data.levels[learned]
            update = learner.learn_many(
                *rows, np.zeros(len(learned), np.uint16), np.ones(len(learned), np.bool_)
            )
            predicted = learner.predict_many(data.users[tested], data.items[tested])
            title = f"{name}, clip {clip:g}, d = {factors}"
            error = rms(predicted - data.stars[tested])
            figures += [
                Figure(f"RMSE, {title}", error, "stars"),
                Figure(f"refused, {title}", 100 * float(update.clipped.mean()), "%"),
            ]
    return figures


def trained(name: str, data: DataSet, epsilons: tuple[str, ...] = EPSILONS) -> list[Figure]:
    """Return RMSE and certified epsilon of every trainer at every epsilon."""
    events = EvaluationData(data.users, data.items, TrueRatings(data.stars, 1, 5))
    slots, figures = learned_events(len(data.users)), []
    for model in TRAINERS:
        for epsilon in epsilons if model != "sgld-paper" else ("inf",):
            wanted = None if epsilon == "inf" else Fraction(epsilon)
            given = TrainerSpec(spec(data, 8, Parameters(), 128), slots, wanted)
            trainer = build_trainer(model, given, SeededSource(SEED))
            result = evaluate_trainer(events, trainer, seed=SEED)
            label = f"{name}, {model}, asked for {epsilon}: {result.mechanism}"
            figures.append(Figure(f"RMSE, {label}", result.rmse, "stars"))
            if model != "sgld-paper":  # it clips nothing
                share = 100 * clipped_share(events, trainer.model, given.norm)
                figures.append(Figure(f"clipped at the end, {label}", share, "%"))
    return figures


def clipped_share(data: EvaluationData, model: CellModel, norm: float) -> float:
    """Return the share of the learned ratings whose vector the trained model would shorten; it is
    computed from true ratings, and not private."""
    learned, _, _ = split(len(data.users), SEED)
    events = Events(data.users[learned], data.items[learned], data.truth.ratings[learned])
    rows, sums = np.arange(len(learned)), np.zeros(model.size, np.int64)
    return model.add_clipped(events, rows, norm, BOUND, sums) / len(rows)


def spec(data: DataSet, factors: int, parameters: Parameters, scalars: int = 64) -> LearnerSpec:
    """Return sizes of gamma = 1."""
    entities = len(np.unique(data.users)) + len(np.unique(data.items))
    return LearnerSpec(
        factors=factors,
        sketch_bytes=4 * factors * entities,
        scalars_bytes=scalars * entities,
        parameters=parameters,
        seed=SEED,
    )
