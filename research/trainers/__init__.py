"""Trainers with a guarantee for one rating event, in central mode; and one as printed, without.

    noisy-cells    one pass, fresh noise for each micro-batch
    tree           one pass, noise by a binary tree over the micro-batches
    subsampled     many steps over secret random samples of a retained log
    sgld           Langevin dynamics at the right temperature, certified as `subsampled`
    sgld-paper     Langevin dynamics as Balu 2016 prints it: no guarantee

Balu 2016 (chapter 4) clips errors and calls that epsilon; clipping alone has no epsilon. Here what
is clipped is noised, in every cell. The protocol is one-pass: a random 80 / 10 / 10 split, whose
first part is trained on in random order.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from research.trainers.langevin import Langevin, PrintedLangevin
from research.trainers.single_pass import SinglePass
from research.trainers.subsampled import Subsampled
from research.trainers.trainer import Events, Guarantee, Trainer, TrainerSpec
from stream_app.evaluation.results import EvaluationData, EvaluationResult, item_means, rms, split
from stream_app.privacy.randomness import RandomSource

TRAINERS: dict[str, Callable[[TrainerSpec, RandomSource | None], Trainer]] = {
    "noisy-cells": partial(SinglePass, "noisy-cells"),
    "tree": partial(SinglePass, "tree"),
    "subsampled": Subsampled,
    "sgld": Langevin,
    "sgld-paper": PrintedLangevin,
}

__all__ = [
    "TRAINERS",
    "Events",
    "Guarantee",
    "Trainer",
    "TrainerSpec",
    "build_trainer",
    "evaluate_trainer",
    "learned_events",
]


def build_trainer(name: str, spec: TrainerSpec, source: RandomSource | None = None) -> Trainer:
    """Return a fresh trainer; noise from `source`, the operating system's by default.

    Raises ValueError for an unknown name, and for a budget that needs more noise than there is.
    """
    if name not in TRAINERS:
        raise ValueError(f"trainer {name!r}: must be one of {', '.join(TRAINERS)}")
    return TRAINERS[name](spec, source)


def learned_events(events: int) -> int:
    """Return how many of the events `evaluate_trainer` trains on."""
    return events * 8 // 10


def evaluate_trainer(
    data: EvaluationData,
    trainer: Trainer,
    *,
    seed: int = 0,
    progress: Callable[[int], None] = lambda events: None,  # noqa: ARG005 (a silent default)
) -> EvaluationResult:
    """Train on the first part of a random split and return the errors on the last.

    `progress` is called with the number of events of each step.
    """
    users, items, truth = data
    if len(users) < 10:
        raise ValueError(f"{len(users)} ratings: at least 10 are needed to evaluate")
    learned, _, tested = split(len(users), seed)
    stars = 1 + 4 * (truth.ratings - truth.lowest) / (truth.highest - truth.lowest)
    began = time.process_time()
    trainer.train(Events(users[learned], items[learned], stars[learned]), progress)
    seconds = time.process_time() - began
    errors = truth.errors(trainer.model.predict(users[tested], items[tested]), tested)
    baseline = item_means(items[learned], truth.ratings[learned], items[tested])
    guarantee = trainer.guarantee
    return EvaluationResult(
        protocol="one-pass",
        model=trainer.name,
        mechanism=str(guarantee),
        epsilon=guarantee.epsilon,
        events=len(tested),
        rmse=rms(errors),
        mae=float(np.abs(errors).mean()),
        rmse_baseline=rms(baseline - truth.ratings[tested]),
        events_per_second=len(learned) / max(seconds, 1e-9),
        learned=len(learned),
    )
